"""Whether images reach pretrained weights as they did when these were trained.

A channel order, a scale or a normalisation that is off raises no error and costs points. BatchNorm remembers what
came: the mean and variance of every channel before the first of them are compared with the stored ones, for our way
of preparing images and for others that are common. What cannot be told in this way is an order of channels that was
another *and* normalised in that order: filters answer colours and their opposites alike.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from parse_dg.data.augment.batches import IMAGENET_MEAN, normalise
from parse_dg.errors import InputError
from parse_dg.model.backbones.backbone import Backbone

OURS = "RGB in [0, 1], normalised with ImageNet's statistics"
PREPARATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    OURS: normalise,
    "BGR, normalised as if it were RGB": lambda unit: normalise(unit.flip(1)),
    "RGB in [0, 1], not normalised": lambda unit: unit,
    "RGB in [-1, 1]": lambda unit: 2 * unit - 1,
    "RGB in [0, 255], not normalised": lambda unit: 255 * unit,
    "BGR in [0, 255], means subtracted": lambda unit: 255 * normalise(unit, IMAGENET_MEAN, (1, 1, 1)).flip(1),
}
"""Ways to hand a float batch in [0, 1] to a network, by name; ours first."""
ALIVE = 1e-3
"""Channels whose stored variance is below this share of the median are left out: nothing ever came there."""
CLEARLY = 0.6
"""Another way is named if the distance is below this share of ours."""
STRANGE = 0.25
"""At more than this (nats), images are unlike those the weights were trained on, whichever way is best. ResNet-50
from ImageNet is at 0.03 on photographs of PACS, 0.05 on paintings, 0.3 on cartoons, 1.1 on sketches."""


class StemFit(NamedTuple):
    """How far the channels before the first BatchNorm are from what it has stored."""

    preparation: str
    distance: float
    """The mean over channels of the Kullback-Leibler divergence of two normal distributions, in nats."""
    mean_shift: float
    """The mean over channels of the difference of the means, in stored standard deviations."""
    variance_ratio: float
    """The median over channels of the variance, as a multiple of the stored one."""


class WeightsReport(NamedTuple):
    """Every way of preparing images, ours first."""

    fits: tuple[StemFit, ...]

    @property
    def better(self) -> StemFit | None:
        """Another way that fits clearly better than ours; None: ours is right as far as can be told."""
        best = min(self.fits, key=lambda fit: fit.distance)
        return best if best.distance < CLEARLY * self.fits[0].distance else None

    @property
    def telling(self) -> bool:
        """Whether some way fits: otherwise these images say nothing about the weights."""
        return min(fit.distance for fit in self.fits) <= STRANGE


def check_weights(backbone: Backbone, images: Sequence[UInt8[Tensor, "_B 3 _H _W"]]) -> WeightsReport:
    """Compare what reaches the first BatchNorm of a backbone with what it has stored, over some batches."""
    norm = next((each for each in backbone.modules() if isinstance(each, nn.BatchNorm2d)), None)
    if norm is None or norm.running_mean is None or norm.running_var is None:
        raise InputError("this backbone has no BatchNorm, whose stored statistics could be compared")
    if not bool(norm.running_mean.any()) and bool((norm.running_var == 1).all()):
        raise InputError("the first BatchNorm has the statistics of a random start: give weights that were trained")
    stored = torch.stack((norm.running_mean, norm.running_var)).double()
    alive = stored[1] > ALIVE * stored[1].median()
    fits = []
    for name, prepare in PREPARATIONS.items():
        found = _moments(backbone, norm, (prepare(batch.float() / 255) for batch in images))
        fits.append(_fit(name, found[:, alive], stored[:, alive]))
    return WeightsReport(tuple(fits))


class _ReachedError(Exception):
    """The pass is over: only what comes before the first BatchNorm is wanted."""


@torch.no_grad()
def _moments(backbone: Backbone, norm: nn.Module, batches: Iterator[Tensor]) -> Float[Tensor, "2 C"]:
    sums: list[Tensor] = []
    count = 0

    def look(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        nonlocal count
        channels = given[0].double().transpose(0, 1).flatten(1)
        count += channels.shape[1]
        sums.append(torch.stack((channels.sum(1), channels.square().sum(1))))
        raise _ReachedError

    handle = norm.register_forward_pre_hook(look)
    backbone.eval()
    try:
        for batch in batches:
            with suppress(_ReachedError):
                backbone(batch)
    finally:
        handle.remove()
    mean, square = torch.stack(sums).sum(0) / count
    return torch.stack((mean, square - mean.square()))


def _fit(name: str, found: Float[Tensor, "2 C"], stored: Float[Tensor, "2 C"]) -> StemFit:
    """Of the mean and the variance of every channel."""
    (mean, variance), (stored_mean, stored_variance) = found, stored
    ratio = (variance / stored_variance).clamp_min(1e-12)
    shift = (mean - stored_mean) / stored_variance.sqrt()
    distance = 0.5 * (ratio + shift.square() - 1 - ratio.log())
    return StemFit(name, float(distance.mean()), float(shift.abs().mean()), float(ratio.median()))
