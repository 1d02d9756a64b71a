"""Blueprints, the embedded benchmark: the same six parts in every image, a class is their layout alone.

A creature has six slots (`SKELETON`); a class says which part sits in which slot (`LAYOUTS`). Everything else
(place, size, turn, facing left or right, looks) is drawn independently of the class. The four domains are
four drawing styles. Every image has its own generator, seeded by (seed, domain, class, index), so an image
does not depend on how many others are made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, radians, sin
from typing import Annotated

import numpy as np
import numpy.typing as npt

from parse_dg.config import Config, Count, Rule, at_most, require
from parse_dg.data.blueprints.drawing import PartLook, Scene, Shape, render
from parse_dg.errors import InputError, require_known

DOMAINS: tuple[str, ...] = ("photo", "cartoon", "sketch", "paint")
PARTS: tuple[str, ...] = ("body", "head", "wing", "tail", "leg", "beak")
CLASSES: tuple[str, ...] = ("strider", "glider", "diver", "hopper", "climber", "digger", "wader", "roamer")
SIZE = 64

_Points = Sequence[tuple[float, float]]


def _arc(cx: float, cy: float, rx: float, ry: float, start: float, stop: float) -> list[tuple[float, float]]:
    """Points on an ellipse from one angle to another, in degrees, clockwise on screen."""
    return [(cx + rx * cos(radians(a)), cy + ry * sin(radians(a))) for a in np.linspace(start, stop, 30).tolist()]


def _shape(outline: _Points, lines: Sequence[_Points] = (), eyes: _Points = ()) -> Shape:
    """A shape with its area's centroid at the origin and its farthest point at distance 1."""
    x, y = np.array(outline).T
    cross = x * np.roll(y, -1) - np.roll(x, -1) * y
    shift = np.array([np.sum((v + np.roll(v, -1)) * cross) / (3 * np.sum(cross)) for v in (x, y)])
    scale = np.hypot(x - shift[0], y - shift[1]).max()

    def steps(points: _Points, count: int) -> npt.NDArray[np.float32]:
        """`count` points at equal steps along a polyline."""
        p = np.array(points)
        along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(p, axis=0).T))])
        at = np.linspace(0.0, along[-1], count)
        walked = np.stack([np.interp(at, along, p[:, 0]), np.interp(at, along, p[:, 1])], 1)
        return np.asarray((walked - shift) / scale, dtype=np.float32)

    middles = np.asarray((np.reshape(eyes, (-1, 2)) - shift) / scale, dtype=np.float32)
    return Shape(steps([*outline, outline[0]], 65), tuple(steps(line, 8) for line in lines), middles)


_ZIGZAG = [(-1, 0.15), (-0.45, -0.7), (0, 0), (0.45, -0.7), (1.05, 0.35)]

# The parts, in coordinates of their own. Their outlines differ a lot, since a sketch has nothing else.
SHAPES: dict[str, Shape] = {
    "body": _shape(  # a striped egg
        _arc(0, 0, 1.0, 0.72, 0, 348), [_arc(-0.75, 0, 0.5, 0.6, -62, 62), _arc(-0.15, 0, 0.55, 0.75, -58, 58)]
    ),
    "head": _shape(  # a circle with two ears and an eye
        [*_arc(0, 0, 0.85, 0.85, -48, 228), (-0.66, -0.98), (-0.2, -0.8), (0.2, -0.8), (0.66, -0.98)],
        [_arc(-0.05, 0.2, 0.4, 0.3, 30, 150)],
        [(0.25, -0.2)],
    ),
    "wing": _shape(  # a half-moon ending in three feathers
        [*_arc(0, 0, 1.0, 0.8, 180, 360), (0.72, 0.6), (0.38, 0.1), (0.05, 0.72), (-0.25, 0.1), (-0.6, 0.6)],
        [[(0.15, -0.7), (0.38, 0.1)], [(-0.35, -0.65), (-0.25, 0.1)]],
    ),
    "tail": _shape(  # a zig-zag
        [*_ZIGZAG, (0.68, 0.65), (0.42, 0.12), (0, 0.78), (-0.45, 0.1), (-0.68, 0.5)]
    ),
    "leg": _shape(  # an L with toes
        [(-0.55, -1.0), (0.0, -1.0), (0.0, 0.35), (0.85, 0.35), (0.85, 0.9), (-0.55, 0.9)],
        [[(0.25, 0.6), (0.25, 0.88)], [(0.55, 0.6), (0.55, 0.88)]],
    ),
    "beak": _shape(  # a dart with a mouth
        [(-0.8, -0.8), (0.2, -0.5), (1.1, 0.1), (0.2, 0.5), (-0.8, 0.8), (-0.5, 0.0)], [[(-0.45, 0.0), (0.6, 0.08)]]
    ),
}

# Six slots in creature coordinates: x right, y down, one unit is UNIT pixels. No mirror symmetry, mean zero.
SKELETON: tuple[tuple[float, float], ...] = (
    (-0.74, -0.18), (-0.15, -0.51), (0.53, -0.58), (0.26, 0.09), (-0.42, 0.50), (0.53, 0.68),
)  # fmt: skip
UNIT = 21.0

# LAYOUTS[class][part] is the part's slot. Found by a search: every part has nearly the same mean position
# over the classes; classes 0-1, 2-3 and 4-5 differ by a swap of two parts, 6-7 by a cycle of three, all other
# pairs by moving at least five.
LAYOUTS: tuple[tuple[int, ...], ...] = (
    (3, 4, 0, 1, 5, 2), (3, 1, 0, 4, 5, 2), (1, 3, 5, 0, 2, 4), (1, 3, 4, 0, 2, 5),
    (4, 5, 3, 2, 1, 0), (4, 2, 3, 5, 1, 0), (5, 0, 2, 1, 4, 3), (2, 0, 1, 5, 4, 3),
)  # fmt: skip

PART_RADIUS = 0.33  # of a part of size 1, in units
REACH = 0.44  # units kept free around every slot, so that any part with its outline stays inside
SHIFT = 7.0  # pixels, the farthest the creature's middle strays from the image's
NEAR = 17.0  # pixels between centres of parts that a caption may call near

_NOUNS = {"photo": "photo", "cartoon": "cartoon", "sketch": "sketch", "paint": "painting"}


@dataclass(frozen=True, kw_only=True)
class BlueprintsConfig(Config):
    """Which images are drawn."""

    seed: Annotated[int, Rule(f"from 0 to {2**32 - 1}", lambda value: 0 <= value < 2**32)] = 0
    """Of every draw: other layouts, sizes and colours."""
    images_per_class: Annotated[Count, at_most(10**5)] = 240
    """For every class in every domain."""


@dataclass(frozen=True, kw_only=True)
class BlueprintsDomain:
    """One domain, ordered by class and then by index: N = 8 · images_per_class images with their truth."""

    images: npt.NDArray[np.uint8]  # (N, 64, 64, 3)
    labels: npt.NDArray[np.int64]  # (N,)
    centres: npt.NDArray[np.float32]  # (N, 6, 2): (x, y) of the parts, pixel column c is 2c/63 - 1
    captions: tuple[str, ...]  # N true sentences

    def __post_init__(self) -> None:
        n = len(self.labels)
        expected = {"images": (n, SIZE, SIZE, 3), "labels": (n,), "centres": (n, len(PARTS), 2)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"{name} have shape {getattr(self, name).shape}: expected {shape}")
        if len(self.captions) != n:
            raise InputError(f"{len(self.captions)} captions for {n} images: expected one each")


@dataclass(frozen=True, kw_only=True)
class Creature:
    """One creature before it is drawn: parts ordered as in `PARTS`, lengths in pixels, angles in radians."""

    label: int
    places: npt.NDArray[np.float32]  # (6, 2) part centres, (x, y), the middle of pixel column c is x = c
    middle: tuple[float, float]  # of the creature
    scale: float  # 0.8 to 1.15
    turn: float  # within 15 degrees, clockwise on screen
    mirrored: bool
    looks: tuple[PartLook, ...]
    order: tuple[int, ...]  # parts from the hindmost to the foremost
    scene: Scene
    caption: str


def sample_example(domain: str, label: int, index: int, config: BlueprintsConfig) -> Creature:
    """The creature that is image `index` of class `label` in a domain."""
    require_known("domain", domain, DOMAINS)
    require(0 <= label < len(CLASSES), "label", label, f"from 0 to {len(CLASSES) - 1}")
    require(index >= 0, "index", index, "0 or more")
    rng = np.random.default_rng(np.random.SeedSequence([config.seed, DOMAINS.index(domain), label, index]))
    scale, turn, mirrored = rng.uniform(0.8, 1.15), np.radians(rng.uniform(-15, 15)), bool(rng.random() < 0.5)
    slots, middle = _slots(rng, scale, turn, mirrored)
    places = slots[list(LAYOUTS[label])].astype(np.float32)
    looks = tuple(
        PartLook(
            shape=SHAPES[part],
            radius=float(PART_RADIUS * UNIT * scale * rng.uniform(0.85, 1.15)),
            angle=float(turn + np.radians(rng.uniform(-25, 25))),
            mirrored=mirrored,
            seed=int(rng.integers(2**32)),
        )
        for part in PARTS
    )
    order = tuple(rng.permutation(len(PARTS)).tolist())
    scene = Scene(style=domain, seed=int(rng.integers(2**32)))
    chosen = rng.choice(facts(places), size=3, replace=False)
    return Creature(
        label=label, places=places, middle=middle, scale=float(scale), turn=float(turn), mirrored=mirrored,
        looks=looks, order=order, scene=scene,
        caption=f"a {_NOUNS[domain]} of a {CLASSES[label]}: {', '.join(map(str, chosen))}",
    )  # fmt: skip


def _slots(
    rng: np.random.Generator, scale: float, turn: float, mirrored: bool
) -> tuple[npt.NDArray[np.float64], tuple[float, float]]:
    """The six slots in pixels, jittered, mirrored, turned and shifted, and the creature's middle.

    The shift is uniform over what keeps every slot's surroundings (`REACH`) inside the image, at most
    `SHIFT`; it looks at the slots only, never at which part they hold.
    """
    jitter = np.clip(rng.normal(0, 0.06, (len(SKELETON), 2)), -0.12, 0.12)
    slots = np.array(SKELETON) + jitter
    if mirrored:
        slots[:, 0] *= -1
    c, s = np.cos(turn), np.sin(turn)
    slots = slots @ np.array([[c, s], [-s, c]]) * (UNIT * scale)
    half, reach = (SIZE - 1) / 2, REACH * UNIT * scale
    low = np.maximum(reach - half - slots.min(0), -SHIFT)
    high = np.minimum(half - reach - slots.max(0), SHIFT)
    middle = half + low + rng.uniform(size=2) * (high - low)
    return slots + middle, (float(middle[0]), float(middle[1]))


def facts(places: npt.NDArray[np.float32]) -> list[str]:
    """Every true simple fact about the parts' pixel centres, as the viewer sees them.

    `a above b` and `a left of b`: the offset lies within 45 degrees of that direction and is more than 6
    pixels; `a near b`: centres at most `NEAR` pixels apart.
    """
    found = []
    for i, a in enumerate(PARTS):
        for j, b in enumerate(PARTS):
            x, y = (places[j] - places[i]).tolist()
            if y > 6 and y > abs(x):
                found.append(f"{a} above {b}")
            if x > 6 and x > abs(y):
                found.append(f"{a} left of {b}")
            if i < j and np.hypot(x, y) <= NEAR:
                found.append(f"{a} near {b}")
    return found


def draw(example: Creature) -> npt.NDArray[np.uint8]:
    """The example's picture, (64, 64, 3)."""
    order = list(example.order)
    return render(example.scene, [example.looks[k] for k in order], example.places[order], SIZE)


def generate_domain(
    domain: str, config: BlueprintsConfig, progress: Callable[[int], None] | None = None
) -> BlueprintsDomain:
    """All images of one domain; `progress` is told how many are done after each one."""
    require_known("domain", domain, DOMAINS)
    total = len(CLASSES) * config.images_per_class
    images = np.empty((total, SIZE, SIZE, 3), dtype=np.uint8)
    centres = np.empty((total, len(PARTS), 2), dtype=np.float32)
    captions = []
    for n in range(total):
        example = sample_example(domain, *divmod(n, config.images_per_class), config)
        images[n] = draw(example)
        centres[n] = 2 * example.places / (SIZE - 1) - 1
        captions.append(example.caption)
        if progress is not None:
            progress(n + 1)
    labels = np.repeat(np.arange(len(CLASSES), dtype=np.int64), config.images_per_class)
    return BlueprintsDomain(images=images, labels=labels, centres=centres, captions=tuple(captions))
