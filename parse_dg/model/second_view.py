"""A second view of every image, moved by a known amount and in another style: primitives are to follow.

What marks a thing is found where the thing went. Nothing here needs a label.

Letters: B images, K primitives, H W their height and width.
"""

import math
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.config import Config, NotNegative
from parse_dg.devices import widest
from parse_dg.model.primitives import PrimitiveDescriptors

TURN = math.radians(25)
"""The most a second view is turned, either way."""
SCALES = (0.8, 1.2)
"""How much of the first view's side it shows."""
SHIFT = 0.25
"""The most it is shifted along each axis, in units of the grid, which is 2 wide."""
INSIDE = 0.95
"""What has moved farther from the middle than this, along either axis, has left the view or is about to."""
CLOSE = 0.2
"""Up to this distance the loss is quadratic, beyond linear."""
ORDERS = tuple(permutations(range(3)))
"""Of the channels."""


@dataclass(frozen=True, kw_only=True)
class EquivarianceConfig(Config):
    """How strongly primitives are asked to follow what they mark."""

    weight: NotNegative = 0.0
    """On the distance, in the second view, between where primitives are and where they should have gone."""
    restyle: bool = True
    """Whether the second view is also in another style: colours, contrast, sharpness."""


class Move(NamedTuple):
    """Which place of the first view is seen at p in the second: M p + t, on the grid, for each image."""

    matrix: Float[Tensor, "B 2 2"]
    shift: Float[Tensor, "B 2"]

    def images(self, first: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """The second view; what lies outside the first is its nearest edge."""
        affine = torch.cat((self.matrix, self.shift[..., None]), 2).to(first)
        grid = F.affine_grid(affine, list(first.shape), align_corners=True)
        return F.grid_sample(first, grid, padding_mode="border", align_corners=True)

    def places(self, first: Float[Tensor, "B K 2"]) -> Float[Tensor, "B K 2"]:
        """Where places of the first view are in the second."""
        back: Tensor = torch.linalg.inv(self.matrix.to(widest(self.matrix.device))).to(first)
        return (first - self.shift.to(first)[:, None]) @ back.mT


class Style(NamedTuple):
    """What is done to the colours of each image."""

    uniform: Float[Tensor, "B 11"]
    """In [0, 1): one for grey, three for contrast, three for brightness, one each for negative, sharpness, edges
    and their sign."""
    order: Int[Tensor, "B 3"]
    """Of the channels."""


def draw_move(count: int, generator: torch.Generator) -> Move:
    """Turned, scaled, shifted, and mirrored half of the time."""
    turn, scale, x, y, mirror = torch.rand(5, count, generator=generator)
    turn = TURN * (2 * turn - 1)
    scale = SCALES[0] + (SCALES[1] - SCALES[0]) * scale
    sign = torch.where(mirror < 0.5, -1.0, 1.0)
    cos, sin = scale * turn.cos(), scale * turn.sin()
    matrix = torch.stack((sign * cos, -sin, sign * sin, cos), -1).view(-1, 2, 2)
    return Move(matrix, SHIFT * (2 * torch.stack((x, y), -1) - 1))


def draw_style(count: int, generator: torch.Generator) -> Style:
    """The numbers, then the orders."""
    uniform = torch.rand(count, 11, generator=generator)
    return Style(uniform, torch.tensor(ORDERS)[torch.randint(len(ORDERS), (count,), generator=generator)])


def restyle(images: Float[Tensor, "B 3 H W"], style: Style) -> Float[Tensor, "B 3 H W"]:
    """Normalised images in another style: grey or other colours, contrast, brightness, negative, blurred or
    sharpened, or edges alone. Where things are does not change.
    """
    u = style.uniform.to(images)[..., None, None]  # (B, 11, 1, 1)
    grey, contrast, brightness, negative, sharpness, edges, sign = torch.split(u, [1, 3, 3, 1, 1, 1, 1], 1)
    mean = images.mean((1, 2, 3), keepdim=True)
    x = torch.where(grey < 0.3, images.mean(1, keepdim=True), images)
    x = x.gather(1, style.order.to(images.device)[..., None, None].expand_as(x))
    x = mean + (x - mean) * (0.5 + contrast) + brightness - 0.5
    x = torch.where(negative < 0.25, -x, x)
    detail = x - _blurred(x, 7)
    x = torch.where(sharpness < 0.25, _blurred(x, 3), torch.where(sharpness >= 0.7, x + 1.5 * detail, x))
    lines = (2.5 * detail.mean(1, keepdim=True).abs() - 1) * torch.where(sign < 0.5, -1, 1)
    return torch.where(edges < 0.2, lines, x)


def _blurred(x: Tensor, side: int) -> Tensor:
    """The mean over squares of so many pixels."""
    around = side // 2
    return F.avg_pool2d(F.pad(x, (around,) * 4, mode="replicate"), side, stride=1)


def with_views(
    images: Float[Tensor, "B 3 H W"], views: Float[Tensor, "B 3 H W"] | None
) -> Float[Tensor, "_ 3 H W"]:
    """The images, then their second views, if any: one batch."""
    if views is None:
        return images
    return torch.cat((images, views)).contiguous(memory_format=torch.channels_last)


def lag(first: PrimitiveDescriptors, second: PrimitiveDescriptors, move: Move) -> Float[Tensor, ""]:
    """How far primitives are, in the second view, from where those of the first have moved to: the mean over those
    that are present in the first and still in view, squared where it is small.
    """
    expected = move.places(first.centre)
    inside = (expected.detach().abs() <= INSIDE).all(-1)
    weight = first.presence.detach() * inside  # (B, K)
    distance = F.smooth_l1_loss(second.centre, expected, beta=CLOSE, reduction="none").sum(-1)
    return (weight * distance).sum() / weight.sum().clamp_min(1.0)


class SecondView(nn.Module):
    """Draws and makes the second views of a batch; has no parameters."""

    def __init__(self, config: EquivarianceConfig) -> None:
        super().__init__()
        self.config = config
        self.share = slice(None)
        """Which images of the batch are here, where several processes share it."""

    def forward(
        self, images: Float[Tensor, "b 3 H W"], count: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "b 3 H W"], Move]:
        """The views of the images that are here, and the moves of all `count` of the batch.

        Draws from the CPU `generator`: the moves, then, where it restyles, the styles.
        """
        move = draw_move(count, generator)
        style = draw_style(count, generator) if self.config.restyle else None
        move = Move(*(part.to(images.device) for part in move))
        views = Move(*(part[self.share] for part in move)).images(images)
        if style is not None:
            views = restyle(views, Style(*(part[self.share] for part in style)))
        return views, move
