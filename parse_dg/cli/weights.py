"""`parse-dg weights`: published weights by name, and whether images reach weights as they were trained."""

from argparse import Namespace
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, say
from parse_dg.errors import FailedError

if TYPE_CHECKING:
    from parse_dg.training.weights_check import WeightsReport


class WrongPreparationError(FailedError):
    """The weights were trained on images that were prepared in another way."""


def weights(options: Namespace, console: Console) -> None:
    """Without WEIGHTS: list the published weights that `backbone.weights` knows by name.
    With WEIGHTS: hand some images of every domain to the network, and compare the mean and variance before
    its first BatchNorm with those it has stored. A scale or normalisation that is off is named (exit 1).

    For example:
      parse-dg weights
      parse-dg weights resnet50.safetensors --data pacs
    """
    if options.weights is None:
        list_weights(console)
        return
    from parse_dg.training.weights_check import OURS

    found = look(options)
    show_fits(console, found)
    for domain, report in found.items():
        if report.telling and report.better is not None:
            raise WrongPreparationError(
                f"weights {options.weights} do not fit how images are prepared here ({OURS}): on {domain} "
                f"{report.better.preparation} fits better, {report.better.distance:.3g} against "
                f"{report.fits[0].distance:.3g} nats"
            )
    if any(report.telling for report in found.values()):
        said = f"they fit how images are prepared here: {OURS}"
    else:
        said = "nothing can be told: these images are unlike those the weights were trained on; try photographs"
    say(console, said)


def look(options: Namespace) -> "dict[str, WeightsReport]":
    """The report of every domain of the data set, on some images of each."""
    import numpy as np
    import torch

    from parse_dg.config import require
    from parse_dg.data.benchmarks import DataConfig, open_benchmark
    from parse_dg.data.loader import load_images
    from parse_dg.data.splits import whole
    from parse_dg.model.backbones.backbone import BackboneConfig, build_backbone
    from parse_dg.model.backbones.mixstyle import MixStyleConfig
    from parse_dg.training.pretrained import load_pretrained
    from parse_dg.training.weights_check import check_weights

    require(options.images >= 1, "--images", options.images, "1 or more")
    config = BackboneConfig(name=options.backbone, weights=options.weights, stride_at=options.stride_at)
    backbone = build_backbone(config, MixStyleConfig(stages=()), torch.Generator())
    load_pretrained(backbone, config)
    found = {}
    for domain in open_benchmark(DataConfig(benchmark=options.data, store="never")).domains:
        count = len(domain.labels)
        places = np.unique(np.linspace(0, count - 1, min(options.images, count)).astype(int))
        batches = [load_images(whole(domain), part)[0] for part in np.array_split(places, -(-len(places) // 16))]
        found[domain.name] = check_weights(backbone, batches)
    return found


def list_weights(console: Console) -> None:
    """Those that are known by name."""
    from parse_dg.cli.show.tables import print_rows
    from parse_dg.training.pretrained import PUBLISHED

    rows = [
        (of.name, of.backbone, of.summary, "" if of.accuracy is None else f"{of.accuracy:.1f}%", of.stride_at)
        for of in PUBLISHED
    ]
    print_rows(console, ("name", "backbone", "what it is", "ImageNet", "stride"), rows, names=5)
    say(
        console,
        *(f"{of.name}, {of.backbone}: {of.address} (SHA-256 {of.digest}…)" for of in PUBLISHED),
        "",
        "Take one with `--set backbone.weights=NAME`: it is downloaded to PyTorch's cache, and its digest checked.",
        "Without a network, fetch the file elsewhere, then `--set backbone.weights=FILE`.",
    )


def show_fits(console: Console, found: "dict[str, WeightsReport]") -> None:
    """Every domain and every way of preparing its images."""
    from parse_dg.cli.show.tables import print_rows

    rows = []
    for domain, report in found.items():
        for fit in report.fits:
            figures = (f"{value:.3g}" for value in (fit.distance, fit.mean_shift, fit.variance_ratio))
            rows.append((domain, fit.preparation, *figures))
    header = ("domain", "images as", "distance (nats)", "mean off by (σ)", "variance ×")
    print_rows(console, header, rows, 2, "before the first BatchNorm, against what it has stored")


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "pretrained weights by name, and whether a file of weights fits how images are prepared"
    command = add_command(commands, "weights", weights, words)
    command.add("weights WEIGHTS", "a name or a file", nargs="?")
    command.add("--data DATA", "whose images, best photographs", "pacs")
    command.add("--images N", "of each domain", 64)
    command.add("--backbone NAME", "", "resnet50")
    command.add("--stride-at", "of a ResNet-50", choices=("3x3", "first_1x1"))
