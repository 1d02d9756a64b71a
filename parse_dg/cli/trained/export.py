"""`parse-dg export`: a trained model for other programs."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, say
from parse_dg.errors import InputError
from parse_dg.wording import plural, printable

if TYPE_CHECKING:
    from torch import Tensor

FORMATS = ("onnx", "torch")
IMAGES = 32
"""On how many the exported model is compared with the original."""


def export(options: Namespace, console: Console) -> None:
    """Write a run's model for other programs; that of PARSE is compacted first, without loss.

    It takes any number of float32 RGB images in [0, 1] of the run's size, normalises them itself and
    gives logits. The classes and this convention are in the file. Before it is there, it is read back
    and compared with PyTorch on images of the run's benchmark, or on noise where that is not here: if a
    logit differs by more than 0.0001, or a prediction does, nothing is written.

    PyTorch may execute what is in a .pt2 file when it loads it: load those you trust. Of the run's own
    model.safetensors nothing is executed.

    For example:
      parse-dg export runs/blueprints/parse/sketch/seed0 --heatmaps
      parse-dg export runs/blueprints/erm/sketch/seed0 --format torch --out erm.pt2
    """
    from parse_dg.deploy.export import SUFFIXES, check_place, export_model
    from parse_dg.runs.afterwards.opened import OpenedRun

    given: Path = options.run
    beside = given / "model" if given.is_dir() else given
    path = options.out or beside.with_suffix(SUFFIXES[options.format])
    model = OpenedRun(given, device="cpu").model
    check_place(path, options.format)
    if options.heatmaps:
        model.parse_network()  # or says that only PARSE has them
    folder = given if given.is_dir() else given.parent
    images, what = check_images(folder, model.spec.image_size, console)
    done = export_model(model, images, path, options.format, heatmaps=options.heatmaps)
    say(
        console,
        f"written to {printable(str(done.path))}: {done.size:,} bytes",
        f"takes images: float32, N × 3 × {model.spec.image_size} × {model.spec.image_size}, RGB in [0, 1]",
        f"gives {', '.join(done.outputs)}",
        f"compared with PyTorch on {plural(done.images, 'image')} {what}: the same predictions, the largest "
        f"difference of a logit is {done.largest_difference:.2g}",
    )


def check_images(folder: Path, size: int, console: Console) -> "tuple[Tensor, str]":
    """Images in [0, 1] to compare on, and what they are: of the run's benchmark where it is here, else noise."""
    import torch

    from parse_dg.cli.show.display import progress_display
    from parse_dg.data.augment.batches import to_unit
    from parse_dg.data.loader import load_images
    from parse_dg.data.splits import whole
    from parse_dg.runs.afterwards.opened import OpenedRun

    why = f"{folder} is no run"
    if (folder / "config.json").is_file():
        try:
            with progress_display(console) as progress:  # a few images: decoded when they are read
                benchmark = OpenedRun(folder, progress=progress, store="never").benchmark
            each = -(-IMAGES // len(benchmark.domains))
            parts = [
                load_images(whole(domain), torch.linspace(0, len(domain.labels) - 1, each).long().numpy())[0]
                for domain in benchmark.domains
            ]
            return to_unit(torch.cat(parts), size), f"of {printable(Path(benchmark.name).name)}"
        except InputError as error:
            why = str(error)
    noise = torch.rand(IMAGES, 3, size, size, generator=torch.Generator().manual_seed(0))
    return noise, f"of noise ({printable(why)})"


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "write a trained model as ONNX or as a program of torch.export"
    command = add_command(commands, "export", export, words)
    command.add_run("the run's folder, or a .safetensors file of a model")
    command.add("--format", "onnx, or torch for torch.export", choices=FORMATS)
    command.add("--heatmaps", "of PARSE: give the primitives' heat maps and centres as well")
    command.add("--out FILE", "default: RUN/model.onnx or RUN/model.pt2")
