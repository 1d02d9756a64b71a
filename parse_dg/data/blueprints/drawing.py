"""How the parts of Blueprints are drawn in the four styles: photo, cartoon, sketch, paint.

Pixel coordinates: x right, y down, the middle of pixel column c is x = c. Colours are float RGB in [0, 1]
until the picture is finished. A part's look comes from its `PartLook` and the `Scene` alone, never from where
it is drawn, so a part can be drawn by itself and look the same.
"""

import colorsys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

Floats = npt.NDArray[np.float32]

TILE = 28  # pixels across the patch a part is drawn in: the largest part with its shadow fits
SHARP = 4  # masks are drawn this many times larger, then averaged


class Shape(NamedTuple):
    """A part's outline, its inner lines and the middles of its eyes, all (n, 2) points."""

    outline: Floats
    lines: tuple[Floats, ...]
    eyes: Floats


@dataclass(frozen=True, kw_only=True)
class PartLook:
    """How one part looks, whatever its place: `radius` in pixels, `angle` in radians, clockwise on screen."""

    shape: Shape
    radius: float
    angle: float
    mirrored: bool
    seed: int  # of its deformation, colours and texture


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What all parts of one picture share: its style and the seed of background, light and finish."""

    style: str
    seed: int


class Patch(NamedTuple):
    """What a part puts on the picture: its colour, how much it covers, how much it darkens around itself."""

    colour: Floats  # (TILE, TILE, 3)
    cover: Floats  # (TILE, TILE)
    shadow: Floats | None = None  # (TILE, TILE)


def traced(look: PartLook, offset: Floats, rng: np.random.Generator) -> Shape:
    """The part's shape, bent by a smooth random field, turned, and put into a patch's enlarged pixels."""
    stretch = np.eye(2) + rng.uniform(-0.1, 0.1, (2, 2))
    wave, phase = rng.uniform(-3.0, 3.0, (2, 2)), rng.uniform(0, 2 * np.pi, 2)
    c, s = np.cos(look.angle), np.sin(look.angle)
    turn = np.array([[-1.0 if look.mirrored else 1.0], [1.0]]) * np.array([[c, s], [-s, c]])
    pieces = (look.shape.outline, *look.shape.lines, look.shape.eyes)
    points = np.concatenate(pieces)
    bent = points @ stretch + 0.06 * np.sin(points @ wave + phase)
    placed = bent @ turn * (look.radius * SHARP) + (offset + TILE / 2) * SHARP - 0.5
    outline, *lines, eyes = np.split(placed.astype(np.float32), np.cumsum([len(p) for p in pieces[:-1]]))
    return Shape(outline, tuple(lines), eyes)


def _rgb(hue: float, saturation: float, value: float) -> Floats:
    return np.array(colorsys.hsv_to_rgb(hue % 1.0, saturation, value), dtype=np.float32)


def _apart(value: float, rng: np.random.Generator) -> float:
    """A brightness well above or well below the background's."""
    up = value < 0.53 or (value < 0.65 and rng.random() < 0.5)
    return float(np.clip(value + rng.uniform(0.27, 0.4) * (1 if up else -1), 0.2, 0.97))


def _noise(rng: np.random.Generator, size: int, cells: int) -> Floats:
    """Smooth noise, about standard normal at the corners of `cells` by `cells`."""
    grid = Image.fromarray(rng.standard_normal((cells, cells), dtype=np.float32))
    return np.asarray(grid.resize((size, size), Image.Resampling.BICUBIC), dtype=np.float32)


def _floats(image: Image.Image) -> Floats:
    return np.asarray(image, dtype=np.float32) / np.float32(255)


def _blurred(values: Floats, radius: float) -> Floats:
    image = Image.fromarray((np.clip(values, 0, 1) * 255).astype(np.uint8))
    return _floats(image.filter(ImageFilter.GaussianBlur(radius)))


def _mask(
    *,
    inside: Floats | None = None,
    lines: Sequence[Floats] = (),
    width: float = 0.0,
    dots: Floats | None = None,
    radius: float = 0.0,
) -> Floats:
    """The inside of an outline, lines `width` pixels thick, dots of a radius: (TILE, TILE) in [0, 1]."""
    image = Image.new("L", (TILE * SHARP, TILE * SHARP))
    pen, r = ImageDraw.Draw(image), radius * SHARP
    if inside is not None:
        pen.polygon(inside.ravel().tolist(), fill=255)
    for line in lines:
        pen.line(line.ravel().tolist(), fill=255, width=max(1, round(width * SHARP)))
    for x, y in [] if dots is None else dots.tolist():
        pen.ellipse((x - r, y - r, x + r, y + r), fill=255)
    return _floats(image.reduce(SHARP))


def _mix(below: Floats, above: Floats, cover: Floats) -> Floats:
    return below + (above - below) * cover[..., None]


def _eyed(colour: Floats, shape: Shape, radius: float) -> Floats:
    """The colour with white eyes and dark pupils on it, where the part has eyes."""
    if not len(shape.eyes):
        return colour
    colour = _mix(colour, np.full(3, 0.96, np.float32), _mask(dots=shape.eyes, radius=0.36 * radius))
    return _mix(colour, np.full(3, 0.06, np.float32), _mask(dots=shape.eyes, radius=0.21 * radius))


class _Style(ABC):
    """One picture being drawn; what its parts share is drawn from the scene's generator when it is built."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self.rng, self.size = rng, size
        self.value = float(rng.uniform(0.34, 0.8))  # the background's brightness
        self.hue, self.lean = float(rng.uniform()), float(rng.uniform(0, 2 * np.pi))

    @abstractmethod
    def background(self) -> Floats:
        """The (size, size, 3) picture before any part."""

    @abstractmethod
    def part(self, look: PartLook, shape: Shape, rng: np.random.Generator) -> Patch:
        """One part in its patch."""

    def finish(self, picture: Floats) -> Floats:
        """What happens to the whole picture at the end."""
        return picture


class _Photo(_Style):
    """Shaded, textured parts with soft shadows on natural ground with leaves; slight blur and noise."""

    def background(self) -> Floats:
        rng, size = self.rng, self.size
        ramp = np.linspace(-1, 1, size, dtype=np.float32)
        glow = ramp[None, :] * np.float32(np.cos(self.lean)) + ramp[:, None] * np.float32(np.sin(self.lean))
        shade = 1 + 0.13 * glow + 0.08 * _noise(rng, size, 5) + 0.05 * _noise(rng, size, 24)
        hue = (0.08, 0.12, 0.2, 0.3, 0.38, 0.57, 0.6)[int(7 * self.hue)]
        ground = _rgb(hue, rng.uniform(0.12, 0.45), self.value)
        return np.asarray(ground * (shade * self._leaves())[..., None], dtype=np.float32)

    def _leaves(self) -> Floats:
        """Small blades and pebbles, unlike any part: the factor they darken or lighten the ground by."""
        rng, size, around = self.rng, self.size, np.linspace(0, 2 * np.pi, 10)
        image = Image.new("L", (2 * size, 2 * size), 128)
        pen = ImageDraw.Draw(image)
        for _ in range(size * size // 300):
            a, length, thick = rng.uniform(0, np.pi), rng.uniform(3, 9), rng.uniform(1, 3)
            along, across = length * np.cos(around), thick * np.sin(around)
            x, y = along * np.cos(a) - across * np.sin(a), along * np.sin(a) + across * np.cos(a)
            points = np.stack([x, y], 1) + rng.uniform(0, 2 * size, 2)
            pen.polygon(points.ravel().tolist(), fill=int(rng.integers(90, 170)))
        return _floats(image.reduce(2)) * np.float32(255 / 128)

    def part(self, look: PartLook, shape: Shape, rng: np.random.Generator) -> Patch:
        value, hue, saturation = _apart(self.value, rng), rng.uniform(), rng.uniform(0.3, 0.8)
        first, second = _rgb(hue, saturation, value), _rgb(hue + 0.09, saturation, 0.85 * value)
        mask = _mask(inside=shape.outline)
        down, right = np.gradient(_blurred(mask, 0.28 * look.radius))
        shade = (1 - 2.2 * (right * np.cos(self.lean) + down * np.sin(self.lean))).astype(np.float32)
        shade *= 1 + 0.08 * _noise(rng, TILE, 14)
        colour = _mix(first[None, None], second, np.clip(0.5 + 0.5 * _noise(rng, TILE, 5), 0, 1))
        colour = colour * (shade * (1 - 0.45 * _mask(lines=shape.lines, width=0.8)))[..., None]
        away = tuple(round(-2 * float(v)) for v in (np.sin(self.lean), np.cos(self.lean)))
        return Patch(_eyed(colour, shape, look.radius), mask, 0.5 * _blurred(np.roll(mask, away, (0, 1)), 1.3))

    def finish(self, picture: Floats) -> Floats:
        soft = _blurred(picture, 0.45)
        return soft + 0.02 * self.rng.standard_normal(soft.shape, dtype=np.float32)


class _Cartoon(_Style):
    """Flat saturated colours inside thick dark outlines, on one or two pastel tones."""

    def background(self) -> Floats:
        rng, size = self.rng, self.size
        first = _rgb(self.hue, rng.uniform(0.08, 0.3), 0.99)
        picture = np.broadcast_to(first, (size, size, 3)).astype(np.float32)
        if rng.random() < 0.7:
            second = _rgb(self.hue + rng.uniform(-0.2, 0.2), rng.uniform(0.15, 0.35), 0.9)
            x, y = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
            along = x * np.cos(self.lean) + y * np.sin(self.lean)
            across = y * np.cos(self.lean) - x * np.sin(self.lean)
            edge = across - rng.uniform(-0.5, 0.5) + rng.uniform(0, 0.15) * np.sin(5 * along + self.lean)
            picture = _mix(picture, second, np.clip(edge * size / 2 + 0.5, 0, 1).astype(np.float32))
        return picture

    def part(self, look: PartLook, shape: Shape, rng: np.random.Generator) -> Patch:
        ink = _rgb(rng.uniform(), 0.5, rng.uniform(0.05, 0.2))
        fill = _rgb(rng.uniform(), rng.uniform(0.6, 1.0), rng.uniform(0.8, 1.0))
        width = rng.uniform(1.2, 1.6)
        edge = _mask(lines=[shape.outline], width=width)
        colour = _mix(fill[None, None], ink, np.maximum(edge, 0.8 * _mask(lines=shape.lines, width=0.6 * width)))
        return Patch(_eyed(colour, shape, look.radius), np.maximum(_mask(inside=shape.outline), edge))


class _Sketch(_Style):
    """Thin wobbly pencil strokes on paper: no fill, sometimes light hatching."""

    def background(self) -> Floats:
        rng, size = self.rng, self.size
        paper = _rgb(rng.uniform(0.08, 0.16), rng.uniform(0, 0.08), rng.uniform(0.93, 1.0))
        grain = 1 + 0.01 * _noise(rng, size, 6) + 0.01 * rng.standard_normal((size, size), dtype=np.float32)
        return np.asarray(paper * grain[..., None], dtype=np.float32)

    def part(self, look: PartLook, shape: Shape, rng: np.random.Generator) -> Patch:
        wobble = np.cumsum(rng.normal(0, 0.35, (2, len(shape.outline), 2)), axis=1)
        wobble -= np.linspace(0, 1, len(shape.outline))[:, None] * wobble[:, -1:]  # ends where it began
        width, dark = rng.uniform(0.6, 0.9), rng.uniform(0.65, 0.95)
        strokes = [(shape.outline + one).astype(np.float32) for one in wobble]
        cover = dark * _mask(lines=[*strokes, *shape.lines], width=width, dots=shape.eyes, radius=0.2 * look.radius)
        if rng.random() < 0.5:
            hatching = _mask(inside=shape.outline) * self._hatching(rng)
            cover = np.maximum(cover, rng.uniform(0.2, 0.4) * hatching)
        ink = _rgb(rng.uniform(), rng.uniform(0, 0.25), rng.uniform(0.08, 0.3))
        return Patch(np.broadcast_to(ink, (TILE, TILE, 3)), cover.astype(np.float32))

    def _hatching(self, rng: np.random.Generator) -> Floats:
        far, gap, a = TILE * SHARP, rng.uniform(1.8, 2.6) * SHARP, rng.uniform(0, np.pi)
        along, across = far * np.array([np.cos(a), np.sin(a)]), gap * np.array([-np.sin(a), np.cos(a)])
        middles = far / 2 + np.arange(-6, 7)[:, None] * across
        return _mask(lines=[np.stack([m - along, m + along]).astype(np.float32) for m in middles], width=0.5)


class _Paint(_Style):
    """Muted brush strokes without outlines, smeared edges, canvas weave."""

    def background(self) -> Floats:
        rng, size = self.rng, self.size
        ends = [_rgb(self.hue + 0.07 * side, rng.uniform(0.15, 0.4), self.value) for side in (-1, 1)]
        return _brushed(rng, size, size * size // 45, (ends[0], ends[1]), self.lean, 9.0)

    def part(self, look: PartLook, shape: Shape, rng: np.random.Generator) -> Patch:
        value, hue, saturation = _apart(self.value, rng), rng.uniform(), rng.uniform(0.3, 0.7)
        ends = (_rgb(hue - 0.05, saturation, value), _rgb(hue + 0.05, saturation, value))
        colour = _brushed(rng, TILE, 24, ends, rng.uniform(0, np.pi), 7.0)
        colour = colour * (1 - 0.35 * _mask(lines=shape.lines, width=1.0))[..., None]
        return Patch(_eyed(colour, shape, look.radius), _mask(inside=shape.outline))

    def finish(self, picture: Floats) -> Floats:
        rng, size = self.rng, self.size
        y, x = np.mgrid[0:size, 0:size]
        drag = _noise(rng, size, size // 4) * 0.8
        dy, dx = (np.rint(drag * f(self.lean)).astype(int) for f in (np.sin, np.cos))
        picture = picture[np.clip(y + dy, 0, size - 1), np.clip(x + dx, 0, size - 1)]
        weave = 0.02 * (np.where(x % 3 == 0, -1, 0.5) + np.where(y % 3 == 0, -1, 0.5))
        weave = weave + 0.02 * _noise(rng, size, 32)
        return np.asarray(_blurred(picture, 0.35) * (1 + weave[..., None]), dtype=np.float32)


def _brushed(
    rng: np.random.Generator, size: int, count: int, ends: tuple[Floats, Floats], lean: float, length: float
) -> Floats:
    """(size, size, 3) covered by `count` brush strokes of colours between the two ends."""
    blend, light = rng.uniform(size=(count, 1)), rng.uniform(0.82, 1.18, (count, 1))
    inks = np.clip((ends[0] * blend + ends[1] * (1 - blend)) * light * 255, 0, 255).astype(int).tolist()
    turn, half = rng.normal(lean, 0.35, count), 0.5 * length * rng.uniform(0.6, 1.4, count)
    at, reach = rng.uniform(0, size, (count, 2)), np.stack([half * np.cos(turn), half * np.sin(turn)], 1)
    image = Image.new("RGB", (size, size), tuple(int(255 * v) for v in (ends[0] + ends[1]) / 2))
    pen = ImageDraw.Draw(image)
    for stroke, ink in zip(np.concatenate([at - reach, at + reach], 1).tolist(), inks, strict=True):
        pen.line(stroke, fill=tuple(ink), width=3)
    return _floats(image)


STYLES: dict[str, type[_Style]] = {"photo": _Photo, "cartoon": _Cartoon, "sketch": _Sketch, "paint": _Paint}


def render(scene: Scene, looks: Sequence[PartLook], places: Floats, size: int) -> npt.NDArray[np.uint8]:
    """The (size, size, 3) picture with the parts at their (n, 2) pixel places, later ones over earlier."""
    style = STYLES[scene.style](np.random.default_rng(scene.seed), size)
    picture = style.background()
    for look, place in zip(looks, places, strict=True):
        rng = np.random.default_rng(look.seed)
        corner = np.rint(place - (TILE - 1) / 2).astype(int)
        offset = np.asarray(place - corner - (TILE - 1) / 2, dtype=np.float32)
        _paste(picture, style.part(look, traced(look, offset, rng), rng), *corner.tolist())
    finished = np.clip(style.finish(picture), 0, 1)
    return np.asarray(finished * 255 + 0.5, dtype=np.uint8)


def _paste(picture: Floats, patch: Patch, left: int, top: int) -> None:
    """Put a patch on the picture, in place; what is outside of the picture is cut off."""
    size = len(picture)
    rows, columns = slice(max(0, top), min(size, top + TILE)), slice(max(0, left), min(size, left + TILE))
    part = (slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
    below = picture[rows, columns]
    if patch.shadow is not None:
        below = below * (1 - patch.shadow[part])[..., None]
    picture[rows, columns] = _mix(below, patch.colour[part], patch.cover[part])
