"""A trained model for other programs: ONNX, or a program of `torch.export`, checked before it is written.

Both take `images` and give `logits` and, of PARSE where asked for, `heatmaps` and `centres` (docs/deploy.md).
PyTorch may execute what is in a .pt2 file when it loads it; the model's own .safetensors file executes nothing.
"""

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import ExportedProgram

from parse_dg._version import __version__
from parse_dg.data.augment.batches import normalise
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model
from parse_dg.deploy.names import to_text
from parse_dg.errors import FailedError, InputError, require_known
from parse_dg.files import attempting, require_writable, whole_file
from parse_dg.wording import first_line, plural

Format = Literal["onnx", "torch"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[str, str] = {"onnx": ".onnx", "torch": ".pt2"}
METADATA = "parse_dg.json"
"""Where a .pt2 file has what an .onnx file has as metadata."""
TOLERANCE = 1e-4
"""No number that the exported model gives may differ by more from the original's."""
BATCHES = (1, 2, 5)
"""Of so many images are the first batches of the check; the last has all others."""

Outputs = dict[str, Tensor]
Runner = Callable[[Tensor], Outputs]


class ExportError(FailedError):
    """The model cannot be expressed in the format, or does not say there what the original says."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """An exported model, and its largest difference from the original."""

    path: Path
    size: int
    """Bytes of the file."""
    outputs: tuple[str, ...]
    images: int
    """On how many it was compared with the original."""
    largest_difference: float
    """The largest absolute difference of a logit on any of them."""


class Exportable(nn.Module):
    """Images in [0, 1] → named outputs."""

    def __init__(self, model: Model, heatmaps: bool):
        super().__init__()
        self.algorithm, self.heatmaps = model.algorithm, heatmaps
        self.mean, self.std = model.spec.mean, model.spec.std

    def forward(self, images: Float[Tensor, "B 3 S S"]) -> Outputs:
        normalised = normalise(images, self.mean, self.std)
        network = self.algorithm.parse_network
        if network is None:
            return {"logits": self.algorithm(normalised)}
        # the network's own pass, but never part by part: how many images there will be is not known
        z = network.bottleneck(network.backbone(normalised))
        layer = network.structure
        active = layer.composition.active()
        logits = layer.composition.logits(layer.evaluate(z, active.applications) @ active.weights.T)
        return {"logits": logits, **({"heatmaps": z.heatmap, "centres": z.centre} if self.heatmaps else {})}


def check_place(path: Path, kind: Format) -> None:
    """Raise unless a file of this format can be written there, and its packages are installed."""
    require_known("format", kind, FORMATS)
    require_writable(path, "the exported model", (SUFFIXES[kind],))
    if kind == "onnx":
        try:
            import onnxruntime  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError as error:
            needs = f"ONNX needs a package that is missing ({error.name})"
            raise InputError(f"{needs}: pip install 'parse-dg[export]'") from error


@torch.no_grad()
def export_model(
    model: Model, images: Float[Tensor, "N 3 S S"], path: Path, kind: Format = "onnx", *, heatmaps: bool = False
) -> Exported:
    """Write a model, compact if it is of PARSE, once it says of `images` (in [0, 1], on the CPU) what `model` says.

    `model` is moved to the CPU. The file is written under a temporary name, read back and run; if it differs,
    nothing is left of it.
    """
    check_place(path, kind)
    size = model.spec.image_size
    if images.shape[2:] != (size, size):
        raise InputError(f"images must have the model's size {size} × {size}, found {tuple(images.shape[2:])}")
    expected = _original(model, images, heatmaps)
    small = compact(model)[0] if model.explains else model
    program = _trace(Exportable(small, heatmaps).eval(), size)
    metadata = export_metadata(model, expected)
    write, read = (_write_onnx, _read_onnx) if kind == "onnx" else (_write_torch, _read_torch)
    with attempting(f"write {path}"), whole_file(path) as temporary:
        write(program, tuple(expected), metadata, temporary)
        difference = _compare(read(temporary), images, expected)
    size = path.stat().st_size
    said = tuple(expected)
    return Exported(path=path, size=size, outputs=said, images=len(images), largest_difference=difference)


def export_metadata(model: Model, outputs: Outputs) -> dict[str, str]:
    """What the file says of itself; whatever is no text is JSON."""
    size = model.spec.image_size
    return {
        "parse_dg_version": __version__,
        "algorithm": model.spec.algorithm.name,
        "classes": json.dumps(model.spec.classes, ensure_ascii=False),
        "image_size": str(size),
        "fit": model.spec.fit,
        **({} if model.spec.resize_to is None else {"resize_to": str(model.spec.resize_to)}),
        "input": f"images: float32, N x 3 x {size} x {size}, RGB in [0, 1]; normalised inside",
        "outputs": json.dumps(list(outputs)),
        **({"primitive_names": json.dumps(to_text(model.names), ensure_ascii=False)} if model.names else {}),
    }


def _original(model: Model, images: Tensor, heatmaps: bool) -> Outputs:
    """What the model itself says, on the path that `parse-dg evaluate` takes."""
    model.algorithm.cpu().eval()
    normalised = model.normalise(images)
    if not heatmaps:
        return {"logits": model.algorithm(normalised)}
    output = model.parse_network()(normalised)
    z = output.descriptors
    return {"logits": output.logits, "heatmaps": z.heatmap, "centres": z.centre}


def _trace(network: Exportable, size: int) -> ExportedProgram:
    """The graph, for any number of images; without the places in our source that each node came from."""
    images = torch.zeros(2, 3, size, size)  # one image would be taken for the only number there is
    network(images)  # finds the active weights, which the graph keeps
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (images,), dynamic_shapes={"images": {0: batch}})
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    return program


def _write_onnx(program: ExportedProgram, outputs: tuple[str, ...], metadata: dict[str, str], path: Path) -> None:
    try:
        with _quiet():
            made = torch.onnx.export(
                program,
                dynamo=True,
                input_names=["images"],
                output_names=outputs,
                dynamic_shapes={"images": {0: "batch"}},
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise ExportError(f"this model has no form in ONNX ({first_line(error)}): nothing is written") from error
    assert made is not None
    for node in made.model.graph.all_nodes():
        node.metadata_props.clear()  # how PyTorch came to it: as large as the graph itself
    made.model.metadata_props.update(metadata)
    made.save(path)


def _write_torch(program: ExportedProgram, outputs: tuple[str, ...], metadata: dict[str, str], path: Path) -> None:
    with path.open("wb") as file:
        torch.export.save(program, file, extra_files={METADATA: json.dumps(metadata, ensure_ascii=False)})


def _read_onnx(path: Path) -> Runner:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(images: Tensor) -> Outputs:
        found = session.run(names, {"images": images.numpy()})
        return {name: torch.from_numpy(value) for name, value in zip(names, found, strict=True)}

    return run


def _read_torch(path: Path) -> Runner:
    with path.open("rb") as file:
        module = torch.export.load(file).module()
    return lambda images: dict(module(images))


def _compare(run: Runner, images: Tensor, expected: Outputs) -> float:
    """The largest difference of a logit; raises if any output differs, or a prediction."""
    first = [size for n, size in enumerate(BATCHES) if sum(BATCHES[: n + 1]) < len(images)]
    batches = torch.split(images.contiguous(), [*first, len(images) - sum(first)])
    parts = [run(batch) for batch in batches]
    if any(part.keys() != expected.keys() for part in parts):
        raise ExportError(f"the exported model gives {list(parts[0])}, not {list(expected)}: nothing is written")
    found = {name: torch.cat([part[name] for part in parts]) for name in expected}
    differences = {name: float((found[name] - expected[name]).abs().max()) for name in expected}
    changed = int((found["logits"].argmax(1) != expected["logits"].argmax(1)).sum())
    if changed or not all(difference <= TOLERANCE for difference in differences.values()):  # NaN is not, either
        largest = ", ".join(f"{name} by up to {difference:.2g}" for name, difference in differences.items())
        raise ExportError(
            f"the exported model differs from the original on {plural(len(images), 'image')}: {largest}, where "
            f"{TOLERANCE:g} is allowed, and {plural(changed, 'other prediction')}: nothing is written"
        )
    return differences["logits"]


@contextmanager
def _quiet() -> Iterator[None]:
    """Within, PyTorch's exporter keeps its own deprecations and the operators it goes without to itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
