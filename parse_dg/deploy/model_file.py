"""A trained model as one `.safetensors` file that says how to build itself: nothing in it is ever executed."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from jaxtyping import Float, UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from parse_dg.algorithms import Algorithm, AlgorithmConfig, BuildContext
from parse_dg.config import Config, Count, Positive, Rule, at_most, from_dict, to_dict
from parse_dg.data.augment.batches import IMAGENET_MEAN, IMAGENET_STD, normalise, to_unit
from parse_dg.data.benchmarks import Side
from parse_dg.data.framing import Framing, ImageFit
from parse_dg.deploy.names import from_text, read_names, to_text
from parse_dg.errors import InputError, about
from parse_dg.files import parse_json, whole_file
from parse_dg.model.backbones.backbone import BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.network import ParseNetwork
from parse_dg.plugins import load_plugins, with_needs, without_needs
from parse_dg.training.checkpoint import digest_of
from parse_dg.wording import short

FORMAT = 1
"""Raised when an older reader could no longer understand the file."""
METADATA = "parse_dg"
"""The entry of the file's header that holds the description."""
COLUMNS = "network.structure.composition.columns"
"""The tensor that only a compacted PARSE has."""
UNNOTICED = 2**24
"""So many weights may be missing before they are compared one by one."""
LINE = 400
"""Characters of what is wrong with a file that are said."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Config):
    """What the network is built from, before its weights are loaded."""

    backbone: BackboneConfig
    algorithm: AlgorithmConfig
    classes: Annotated[tuple[str, ...], Rule("1 to 65536 names", lambda names: 1 <= len(names) <= 2**16)]
    image_size: Side
    """Side of the images it was trained on, in pixels; RGB."""
    fit: ImageFit = "squash"
    """How an image becomes a square."""
    resize_to: Side | None = None
    """The side of that square, of which it sees the middle; none: image_size."""
    mean: tuple[float, float, float] = IMAGENET_MEAN
    """What is taken off red, green and blue, which lie in [0, 1], before the network sees them."""
    std: tuple[Positive, Positive, Positive] = IMAGENET_STD
    """What they are then divided by."""
    domains: Annotated[Count, at_most(2**16)] = 3
    """How many source domains it was trained on: some methods have a part that tells them apart."""

    @property
    def framing(self) -> Framing:
        """What it sees of an image."""
        return Framing(size=self.image_size, fit=self.fit, resize_to=self.resize_to)


@dataclass(frozen=True)
class Model:
    """A trained classifier in evaluation mode, and what it was built from."""

    spec: ModelSpec
    algorithm: Algorithm = field(repr=False)
    names: Mapping[int, str] = field(default_factory=dict, compare=False)
    """What people call its primitives, where they gave them names: {3: "beak"}."""

    @property
    def compact(self) -> bool:
        """Whether inactive applications have been sliced away."""
        return COLUMNS in self.algorithm.state_dict()

    def normalise(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        """RGB in [0, 1] → what the network sees."""
        return normalise(images, self.spec.mean, self.spec.std)

    def prepare(self, images: UInt8[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        """RGB values 0 to 255 → what the network sees, on its device and in its type."""
        weight = next(self.algorithm.parameters())
        return self.normalise(to_unit(images.to(weight.device)).to(weight.dtype))

    @property
    def explains(self) -> bool:
        """Whether it can be explained, and compacted."""
        return self.algorithm.parse_network is not None

    def parse_network(self) -> ParseNetwork:
        """The network, if it is one of PARSE: no other can be compacted and explained."""
        if self.algorithm.parse_network is None:
            raise InputError(f"this needs a model of parse, found one of {self.spec.algorithm.name}")
        return self.algorithm.parse_network


def build_model(spec: ModelSpec, state: dict[str, Tensor]) -> Model:
    """The network of `spec` with the weights of `state`, in evaluation mode on the CPU."""
    backbone = build_backbone(spec.backbone, MixStyleConfig(stages=()))
    context = BuildContext(
        backbone,
        len(spec.classes),
        columns=state.get(COLUMNS),
        domains=spec.domains,
        vocabulary=spec.algorithm.read_vocabulary(state),
    )
    algorithm = spec.algorithm.build(context)
    algorithm.load_state_dict(state)
    return Model(spec, algorithm.eval())


def save_model(
    path: Path, spec: ModelSpec, state: dict[str, Tensor], names: Mapping[int, str] | None = None
) -> None:
    """Write the model, whole or not at all, with the names of its primitives if it has any."""
    tensors = {name: value.cpu().contiguous() for name, value in state.items()}
    about_it: dict[str, Any] = {
        "format": FORMAT,
        "model": with_needs(to_dict(spec)),
        "sha256": digest_of(tensors, ""),
    }
    if names:
        about_it["names"] = to_text(names)
    # One entry only: the order of several would change from one writing to the next.
    metadata = {METADATA: json.dumps(about_it, sort_keys=True)}
    with whole_file(path) as temporary:
        save_file(tensors, temporary, metadata)


def load_model(path: str | Path, plugins: Iterable[str] = ()) -> Model:
    """The model of a `.safetensors` file, or of a run's folder; `plugins` are imported first.

    Its primitives have the names in names.json beside it, else those that the file itself carries.
    """
    load_plugins(plugins)
    path = Path(path)
    if path.is_dir():
        path = path / "model.safetensors"
    if not path.is_file():
        raise InputError(f"no model at {path}: expected a run's folder or a .safetensors file of parse-dg")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a readable .safetensors file: {error}") from error
    spec, carried = _read_spec(path, metadata, state)
    try:
        _require_room(spec, state)
        model = build_model(spec, state)
    except (RuntimeError, ValueError) as error:
        said = " ".join(line.strip() for line in str(error).splitlines()[:2])
        raise InputError(f"{path} does not fit its own description: {said[:LINE]}") from error
    return _with_names(model, path, carried) if model.explains else model


def _require_room(spec: ModelSpec, state: Mapping[str, Tensor]) -> None:
    """Raise, before memory is taken, if the description is of more weights than the file has."""
    held = sum(value.numel() for value in state.values())
    needed = {} if COLUMNS in state else spec.algorithm.least_parameters(len(spec.classes))
    for name, least in needed.items():
        if least > held + UNNOTICED:
            raise InputError(f"algorithm.{name} asks for at least {least:,} weights, and it holds {held:,}")


def _with_names(model: Model, path: Path, carried: Any) -> Model:
    network = model.parse_network()
    names = read_names(path.parent, network)
    if names is None:
        with about(f"{path} has names of primitives that cannot be used"):
            if not isinstance(carried, dict) or not all(isinstance(name, str) for name in carried.values()):
                raise InputError("expected an object of texts")
            names = from_text(carried, network.structure.vocabulary.primitives)
    return replace(model, names=names)


def _read_spec(path: Path, metadata: dict[str, str], state: Mapping[str, Tensor]) -> tuple[ModelSpec, Any]:
    """The model of the file's description, and the names that it carries; earlier versions wrote no digest."""
    if METADATA not in metadata:
        raise InputError(f"{path} holds weights, but was not written by parse-dg: it lacks its description")
    try:
        data: Any = parse_json(metadata[METADATA], "it")
        found, model = data["format"], data["model"]
        names, digest = data.get("names", {}), data.get("sha256")
    except (InputError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} has a damaged description: {str(error)[:LINE]}") from error
    if found != FORMAT:
        raise InputError(f"{path} has format {short(found)}, this version reads format {FORMAT}: update parse-dg")
    if digest is not None and digest != digest_of(state, ""):
        raise InputError(f"{path} is damaged: its weights are not those that were written; copy or train it again")
    model = without_needs(model, path)
    try:
        return from_dict(ModelSpec, model), names
    except (InputError, TypeError, RecursionError) as error:
        raise InputError(f"{path} describes no model this version knows: {str(error)[:LINE]}") from error
