"""What is drawn on an image: heat, places, relations. Axes are in pixels, as `show` leaves them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from parse_dg.data.framing import Picture, SeenPart, pixels_in
from parse_dg.explain.explanation import Application
from parse_dg.explain.figures.page import BLUE, INK
from parse_dg.model.primitives import PrimitiveDescriptors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Names = Mapping[int, str]
"""What people call primitives."""
NO_NAMES: Names = MappingProxyType({})
EDGES = ("line", "equal", "level", "plumb", "arrow")
"""The marks between two primitives, which are drawn as an edge; of the others only the ring is drawn."""


def show(axes: "Axes", image: UInt8[Tensor, "3 H W"], smooth: bool = False, faint: bool = False) -> None:
    """An image, without ticks or frame; `faint`: in light grey, for something to be seen above it."""
    if faint:
        grey = image.float().mean(0).cpu().numpy()
        share = (grey - grey.min()) / max(float(np.ptp(grey)), 1.0)
        axes.imshow(0.6 + 0.36 * share, cmap="gray", vmin=0, vmax=1, interpolation="bicubic")
    else:
        axes.imshow(image.permute(1, 2, 0).cpu().numpy(), interpolation="bicubic" if smooth else None)
    axes.autoscale(False)  # what is drawn later leaves the image as large as it is
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def show_picture(axes: "Axes", picture: Picture) -> None:
    """A whole image with its shape, pale where the network did not see it."""
    height, width = picture.pixels.shape[:2]
    left, top, right, bottom = picture.seen
    show(axes, torch.from_numpy(picture.pixels).permute(2, 0, 1), smooth=True)
    y, x = np.mgrid[:height, :width] + 0.5
    unseen = (x < left) | (x > right) | (y < top) | (y > bottom)
    pale = np.ones((height, width, 4)) * (1, 1, 1, 0.7)
    pale[~unseen] = 0
    axes.imshow(pale)


def show_heat(
    axes: "Axes", image: UInt8[Tensor, "3 H W"], z: PrimitiveDescriptors, k: int, b: int = 0, ring: str = BLUE
) -> None:
    """Primitive k in image b of the descriptors: the image in light grey, the heat map over it as strong as the
    primitive is present, its centre in a ring, if that has a colour.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LinearSegmentedColormap

    show(axes, image, faint=True)
    height, width = image.shape[1:]
    upsampled = torch.nn.functional.interpolate(
        z.heatmap[b : b + 1, k : k + 1].float(), size=(height, width), mode="bilinear", align_corners=True
    )[0, 0]
    heat = (upsampled / upsampled.max()).cpu().numpy()
    strength = 0.2 + 0.75 * float(z.presence[b, k])
    # From yellow to dark purple: lightness alone tells them apart, and all of them are seen on light grey.
    colours = LinearSegmentedColormap.from_list("heat", colormaps["inferno"](np.linspace(0.85, 0.3, 64)))
    axes.imshow(heat, cmap=colours, alpha=heat * strength, vmin=0, vmax=1)
    for thick, ink in ((1.8, "white"), (0.9, ring)) if ring else ():
        looks: dict[str, Any] = {"markersize": 7, "markerfacecolor": "none", "markeredgecolor": ink}
        axes.plot(*pixels_of(z.centre[b], image)[k], "o", markeredgewidth=thick, **looks)


def pixels_of(centre: Float[Tensor, "K 2"], image: UInt8[Tensor, "3 H W"]) -> Float[np.ndarray, "K 2"]:
    """The grid's [-1, 1]² in pixels of the image; corners are aligned."""
    return pixels_in(SeenPart(0, 0, image.shape[2], image.shape[1]), centre.cpu().numpy())


def mark_relation(
    axes: "Axes",
    relation: Application,
    places: Float[np.ndarray, "K 2"],
    colour: str,
    scale: float = 1.0,
    bend: float = 0.0,
    shrink: float = 5.0,
) -> None:
    """A ring for presence, an arrow for an ordered pair, a line for a symmetric one, the edges for the rest.

    `bend` curves them, so that relations on one edge can be told apart; they end `shrink` points before a place.
    """
    for kind, *primitives in relation.marks:
        points = [tuple(places[i]) for i in primitives]
        if kind == "ring":
            edge: dict[str, Any] = {"markeredgecolor": colour, "markeredgewidth": 2 * scale}
            axes.plot(*points[0], "o", markersize=17 * scale, markerfacecolor="none", **edge)
        elif kind in EDGES:
            head = f"-|>,head_length={0.4 * max(scale, 0.6)},head_width={0.2 * max(scale, 0.6)}"
            looks: dict[str, Any] = {
                "arrowstyle": head if kind == "arrow" else "-",
                "connectionstyle": f"arc3,rad={bend}",
            }
            looks |= {"color": colour, "linewidth": 2 * scale, "shrinkA": shrink * scale, "shrinkB": shrink * scale}
            axes.annotate("", xy=points[1], xytext=points[0], zorder=3, arrowprops=looks)


def mark_primitive(
    axes: "Axes",
    place: Float[np.ndarray, "2"],
    number: int,
    *,
    size: float = 11,
    text: float = 7,
    fill: str = "white",
    edge: str = INK,
) -> None:
    """A disc with the primitive's number; `size` and `text` in points."""
    ink = INK if fill == "white" else "white"
    axes.plot(*place, "o", color=fill, markeredgecolor=edge, markersize=size, markeredgewidth=0.8, zorder=4)
    middle: dict[str, Any] = {"ha": "center", "va": "center_baseline", "annotation_clip": False}
    axes.annotate(str(number), tuple(place), fontsize=text, color=ink, zorder=5, **middle)


def mark_primitives(
    axes: "Axes",
    places: Float[np.ndarray, "n 2"],
    numbers: Sequence[int],
    *,
    inches: float,
    size: float = 8.5,
    text: float = 6,
    edge: str = INK,
    names: Names = NO_NAMES,
) -> None:
    """Discs that do not cover each other, on axes so many inches wide: one that has to give way has a line to its
    place. Below it is the primitive's name, where it has one.
    """
    left, right = axes.get_xlim()
    moved = give_way(places, 1.08 * size / 72 / inches * (right - left))
    for place, disc, number in zip(places, moved, numbers, strict=True):
        if np.abs(disc - place).max() > 1e-6:
            axes.plot(*np.stack([place, disc]).T, "-", color=edge, linewidth=0.5, zorder=3.5)
            axes.plot(*place, "o", color=edge, markersize=1.5, zorder=3.5)
        mark_primitive(axes, disc, number, size=size, text=text, edge=edge)
        if number in names:
            paper = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5}
            below: dict[str, Any] = {"xytext": (0, -0.6 * size), "textcoords": "offset points", "bbox": paper}
            middle: dict[str, Any] = {"ha": "center", "va": "top", "annotation_clip": False}
            axes.annotate(names[number], tuple(disc), fontsize=text, color=INK, zorder=3.8, **below, **middle)


def zoom_on(axes: "Axes", places: Float[np.ndarray, "n 2"], least: float = 0.4) -> None:
    """Show the square part of the image where the places are, with a margin; `least` of its width at least."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()  # images have their top at 0
    low, high = places.min(0), places.max(0)
    side = min(max(1.5 * float((high - low).max()), least * (right - left)), right - left, bottom - top)
    middle = (low + high) / 2
    x = float(np.clip(middle[0] - side / 2, left, right - side))
    y = float(np.clip(middle[1] - side / 2, top, bottom - side))
    axes.set_xlim(x, x + side)
    axes.set_ylim(y + side, y)


def give_way(places: Float[np.ndarray, "n 2"], distance: float, rounds: int = 200) -> Float[np.ndarray, "n 2"]:
    """The places, those that are too close pushed apart until they are about so far from each other."""
    count = len(places)
    turn = 2.4 * np.arange(count)  # what coincides exactly leaves in different directions
    apart = np.stack([np.cos(turn), np.sin(turn)], 1)
    moved = places.astype(float)
    for _ in range(rounds):
        edge = moved[:, None] - moved[None]  # (n, n, 2)
        length = np.linalg.norm(edge, axis=-1)
        close = (length < distance) & ~np.eye(count, dtype=bool)
        if not close.any():
            break
        way = np.where(length[..., None] > 1e-9, edge / np.maximum(length, 1e-9)[..., None], apart[:, None])
        push = 0.5 * (1.001 * distance - length) * close
        moved += (push[..., None] * way).sum(1)
    return moved
