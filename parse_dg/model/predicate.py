"""What a predicate is: one object says how it is applied, evaluated, put in words and drawn.

Letters: B images, K primitives, n applications. A quantity of every primitive is laid out (K, B), so that the
primitives of an application are picked as whole rows.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.config import require
from parse_dg.errors import InputError, require_known
from parse_dg.model.geometry import Vector, damped, fading
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.tuples import ARITIES, Enumeration, Symmetry, TupleListing, list_tuples

Activation = Float[Tensor, "n B"]
Family = Literal["presence", "binary", "ternary", "quaternary"]
FAMILIES: tuple[Family, ...] = get_args(Family)

MIN_PRESENCE = 1e-30
"""Presence is at least this inside the logarithm of the gate."""

Mark = tuple[str, *tuple[int, ...]]
"""What is drawn, and at which places of the tuple: ("arrow", 0, 1)."""
MARKS = {
    "ring": 1,  # around a primitive
    "box": 1,  # its extent
    "dashed_box": 1,
    "line": 2,
    "arrow": 2,
    "equal": 2,  # a line with the stroke across that says it is as long as another
    "level": 2,  # a horizontal guide past both
    "plumb": 2,  # a vertical one
    "corner": 3,  # the angle at the second between the directions to the first and to the third
    "turn": 3,  # the angle at the second between coming from the first and going on to the third
    "angle": 4,  # nothing drawn; the angle between two edges is said
    "ratio": 4,  # nothing drawn; how many times as long as the second edge the first is
}
"""Every mark, and how many places it has."""


class Primitives(NamedTuple):
    """The descriptors of K primitives, laid out by primitive."""

    centre: Float[Tensor, "2 K B"]
    extent: Float[Tensor, "2 K B"]
    presence: Float[Tensor, "K B"]
    log_presence: Float[Tensor, "K B"]

    @classmethod
    def of(cls, z: PrimitiveDescriptors) -> "Primitives":
        centre, extent = z.centre.permute(2, 1, 0).contiguous(), z.extent.permute(2, 1, 0).contiguous()
        presence = z.presence.T.contiguous()
        return cls(centre, extent, presence, presence.clamp_min(MIN_PRESENCE).log())


@dataclass(frozen=True, eq=False)
class BoundPrimitives:
    """What a satisfaction is computed from: the primitives that n applications bind, by their place in the tuple,
    and the predicate's parameters. Coordinates lie in [-1, 1]², x to the right, y downwards.
    """

    primitives: Primitives
    tuples: Int[Tensor, "arity n"]
    angle: Int[Tensor, "n"] | None
    """Which target angle each application has, if the predicate has any."""
    parameters: Mapping[str, Tensor]
    edge_softness: float
    edge_fade: float

    def x(self, place: int) -> Activation:
        """Of a primitive's centre."""
        return self._axes[0].index_select(0, self.tuples[place])

    def y(self, place: int) -> Activation:
        """Of a primitive's centre; downwards."""
        return self._axes[1].index_select(0, self.tuples[place])

    @cached_property
    def _axes(self) -> Vector:
        return self.primitives.centre[0], self.primitives.centre[1]

    def extent(self, place: int) -> Float[Tensor, "2 n B"]:
        """Half the width and half the height of a primitive's box."""
        return self.primitives.extent.index_select(1, self.tuples[place])

    def presence(self, place: int) -> Activation:
        """σ of a primitive."""
        return self.primitives.presence.index_select(0, self.tuples[place])

    def edge(self, start: int, end: int) -> Vector:
        """The directed edge from one primitive to another."""
        centre = self.primitives.centre
        x, y = (centre.index_select(1, self.tuples[end]) - centre.index_select(1, self.tuples[start])).unbind()
        return x, y

    def direction(self, start: int, end: int) -> Vector:
        """The same edge where only its direction or relative length counts: `predicates.edge_softness` damps its
        gradient. A satisfaction made of such edges is `faded`.
        """
        return damped(self.edge(start, end), self.edge_softness)

    def faded(self, satisfied: Activation, u: Vector, v: Vector) -> Activation:
        """Less where an edge is too short to have a direction (`predicates.edge_fade`)."""
        fade = self.edge_fade
        return satisfied * fading(u, fade) * fading(v, fade) if fade else satisfied

    def parameter(self, name: str, then: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """A parameter, `then` a function of it: one number, or with target angles one an application, (n, 1)."""
        value = self.parameters[name] if then is None else then(self.parameters[name])
        return value if self.angle is None else value[self.angle].unsqueeze(1)


def nearest_angle(target: float) -> float:
    """An angle out of reach, such as training may leave, as the nearer end of [0, π]."""
    return min(max(target, 0.0), math.pi)


@dataclass(frozen=True, kw_only=True, eq=False)
class Predicate:
    """One soft predicate: everything that the package knows of it."""

    name: str
    """In names of applications `_` is written `-`."""
    arity: int
    """How many primitives it binds."""
    symmetry: Symmetry = "none"
    satisfaction: Callable[[BoundPrimitives], Activation]
    """How far it holds, in [0, 1], with finite gradients, also where primitives coincide."""
    parameters: Mapping[str, float | str] = field(default_factory=dict)
    """What is learned, shared by all applications, by name: where it starts, or the field of `PredicatesConfig`
    whose logarithm that is."""
    angles: int | str | None = None
    """How many target angles it has, or the field of `VocabularyConfig` that says so. They are the parameter
    `target_angle`, spread over (0, π) at the start; every other parameter then has one value for each."""
    shown_angle: Callable[[float], float] = nearest_angle
    """From a learned target to the angle that edges have where it holds, in radians from 0 to π."""
    gated: bool = True
    """Whether it is multiplied by its primitives' presence where `predicates.gate` is on."""
    words: str
    """As one would say it: `{0} above {1}`; `{angle}` is the target angle."""
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        where = f"predicate {self.name!r}"
        ok = self.name.isidentifier() and not hasattr(nn.ParameterDict, self.name)
        require(ok, f"{where}: its name", self.name, "letters, digits and '_', and no method of a dictionary")
        require_known(f"{where}: symmetry", self.symmetry, get_args(Symmetry))
        arity = ARITIES.get(self.symmetry, max(1, self.arity))
        require(self.arity == arity, f"{where}: arity", self.arity, f"{arity} with symmetry {self.symmetry}")
        for kind in self.parameters:
            ok = kind.isidentifier() and not hasattr(nn.Module(), kind) and kind not in ("config", "target_angle")
            require(ok, f"{where}: a parameter", kind, "a name of letters, digits and '_' that is not taken")
        for kind, *places in self.marks:
            require_known(f"{where}: mark", kind, MARKS)
            ok = len(places) == MARKS[kind] and all(0 <= place < self.arity for place in places)
            require(ok, f"{where}: mark {kind}", places, f"{MARKS[kind]} places from 0 to {self.arity - 1}")
        try:
            self.say(tuple(range(self.arity)), 0.0)
        except (IndexError, KeyError, AttributeError, ValueError) as error:
            valid = ", ".join((*(f"{{{place}}}" for place in range(self.arity)), "{angle}"))
            raise InputError(f"{where}: words may hold {valid}, found {self.words!r}") from error

    def count_angles(self, vocabulary: object) -> int:
        """How many target angles it has with a `VocabularyConfig`; 1 if it has none."""
        found: int = getattr(vocabulary, self.angles) if isinstance(self.angles, str) else self.angles or 1
        return found

    def start(self, config: object, vocabulary: object) -> dict[str, Tensor]:
        """Its parameters before training, with a `PredicatesConfig` and a `VocabularyConfig`."""
        count = self.count_angles(vocabulary)
        evenly = (torch.arange(count) + 0.5) * (math.pi / count)  # half a step from both ends of (0, π)
        found = {} if self.angles is None else {"target_angle": evenly}
        for kind, start in self.parameters.items():
            value = math.log(getattr(config, start)) if isinstance(start, str) else float(start)
            found[kind] = torch.full(() if self.angles is None else (count,), value)
        return found

    @property
    def family(self) -> Family:
        """What it is switched with: predicates that bind as many primitives."""
        return FAMILIES[min(self.arity, len(FAMILIES)) - 1]

    def listing(self, K: int, enumeration: Enumeration = "distinct") -> TupleListing:
        """The tuples of K primitives that it is applied to."""
        return list_tuples(self.symmetry, self.arity, K, enumeration)

    def application(self, angle: int, primitives: tuple[int, ...]) -> str:
        """The readable name of one application: `above(p3, p11)`, `orient[2](p0→p4, p7→p9)`."""
        p = [f"p{i}" for i in primitives]
        edges = self.symmetry in ("edges", "lengths")
        inside = f"{p[0]}→{p[1]}, {p[2]}→{p[3]}" if edges else ", ".join(p)
        number = "" if self.angles is None else f"[{angle}]"
        return f"{self.name.replace('_', '-')}{number}({inside})"

    def say(self, primitives: tuple[int, ...], target: float | None, names: Mapping[int, str] | None = None) -> str:
        """One application in words, with its learned target angle where it has one; `names` of some primitives."""
        angle = "" if target is None else f"{math.degrees(self.shown_angle(target)):.0f}°"
        return self.words.format(*((names or {}).get(i, f"p{i}") for i in primitives), angle=angle)

    def draw(self, primitives: tuple[int, ...]) -> list[Mark]:
        """What is to be drawn of one application: every mark with the primitives at its places."""
        return [(kind, *(primitives[place] for place in places)) for kind, *places in self.marks]
