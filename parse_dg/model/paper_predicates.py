"""The eleven predicates of section 3.1, and the registry of these and all others."""

from math import acos, cos

import torch
from torch import Tensor

from parse_dg.model.geometry import Vector, angle_between, dot, length, unit
from parse_dg.model.predicate import Activation, BoundPrimitives, Predicate
from parse_dg.registry import Registry


def _bell(squared: Tensor, log_tolerance: Tensor) -> Tensor:
    """exp(-d²/(2τ²))."""
    return torch.exp(-0.5 * squared * torch.exp(-2.0 * log_tolerance))


def _directed(gap: Tensor, bound: BoundPrimitives) -> Activation:
    return torch.sigmoid(bound.parameter("log_steepness").exp() * (gap - bound.parameter("margin")))


def _near(bound: BoundPrimitives) -> Activation:
    x, y = bound.edge(0, 1)
    return _bell(x.square() + y.square(), bound.parameter("log_tolerance"))


def _contains(bound: BoundPrimitives) -> Activation:
    x, y = bound.edge(0, 1)
    width, height = bound.extent(0) - bound.extent(1)
    # The four gaps between the boxes' sides are width ± x and height ± y.
    slack = torch.minimum(width - x.abs(), height - y.abs())
    return torch.sigmoid(bound.parameter("log_steepness").exp() * slack)


def _at_angle(u: Vector, v: Vector, bound: BoundPrimitives) -> Activation:
    away = angle_between(u, v) - bound.parameter("target_angle")
    return bound.faded(_bell(away.square(), bound.parameter("log_tolerance")), u, v)


def _orient(bound: BoundPrimitives) -> Activation:
    u, v = bound.direction(0, 1), bound.direction(2, 3)
    away = dot(unit(u), unit(v)) - bound.parameter("target_angle", torch.cos)
    return bound.faded(_bell(away.square(), bound.parameter("log_tolerance")), u, v)


def _eqdist(bound: BoundPrimitives) -> Activation:
    u, v = bound.direction(0, 1), bound.direction(2, 3)
    away = length(u).log() - length(v).log()
    return bound.faded(_bell(away.square(), bound.parameter("log_tolerance")), u, v)


_DIRECTED: dict[str, float | str] = {"log_steepness": "steepness", "margin": 0.0}
_ALIGNED: dict[str, float | str] = {"log_tolerance": "alignment_tolerance"}
_ANGLED: dict[str, float | str] = {"log_tolerance": "angle_tolerance"}

PAPER = (
    Predicate(
        name="has", arity=1, satisfaction=lambda bound: bound.presence(0), gated=False,
        words="{0} is there", marks=(("ring", 0),),
    ),
    Predicate(
        name="above", arity=2, satisfaction=lambda bound: _directed(bound.y(1) - bound.y(0), bound),
        parameters=_DIRECTED,
        words="{0} above {1}", marks=(("arrow", 0, 1),),
    ),
    Predicate(
        name="left", arity=2, satisfaction=lambda bound: _directed(bound.x(1) - bound.x(0), bound),
        parameters=_DIRECTED,
        words="{0} left of {1}", marks=(("arrow", 0, 1),),
    ),
    Predicate(
        name="h_align", arity=2, symmetry="full", parameters=_ALIGNED,
        satisfaction=lambda bound: _bell(bound.edge(0, 1)[1].square(), bound.parameter("log_tolerance")),
        words="{0} level with {1}", marks=(("level", 0, 1),),
    ),
    Predicate(
        name="v_align", arity=2, symmetry="full", parameters=_ALIGNED,
        satisfaction=lambda bound: _bell(bound.edge(0, 1)[0].square(), bound.parameter("log_tolerance")),
        words="{0} straight above or below {1}", marks=(("plumb", 0, 1),),
    ),
    Predicate(
        name="near", arity=2, symmetry="full", satisfaction=_near, parameters={"log_tolerance": "near_tolerance"},
        words="{0} near {1}", marks=(("line", 0, 1),),
    ),
    Predicate(
        name="contains", arity=2, satisfaction=_contains, parameters={"log_steepness": "steepness"},
        words="{0} around {1}", marks=(("box", 0), ("dashed_box", 1), ("arrow", 0, 1)),
    ),
    Predicate(
        name="tri", arity=3, symmetry="apex", parameters=_ANGLED, angles="triangle_angles",
        satisfaction=lambda bound: _at_angle(bound.direction(0, 1), bound.direction(0, 2), bound),
        words="{1} and {2} seen from {0} about {angle} apart",
        marks=(("line", 0, 1), ("line", 0, 2), ("corner", 1, 0, 2)),
    ),
    Predicate(
        name="turn", arity=3, symmetry="reversal", parameters=_ANGLED, angles="turning_angles",
        satisfaction=lambda bound: _at_angle(bound.direction(0, 1), bound.direction(1, 2), bound),
        words="{0}→{1}→{2} turns by about {angle}",
        marks=(("arrow", 0, 1), ("arrow", 1, 2), ("turn", 0, 1, 2)),
    ),
    Predicate(
        name="orient", arity=4, symmetry="edges", satisfaction=_orient,
        parameters={"log_tolerance": "orientation_tolerance"}, angles="orientation_angles",
        # It looks at the cosine alone, which an angle beyond 180° shares with one below.
        shown_angle=lambda target: acos(cos(target)),
        words="{0}→{1} at about {angle} to {2}→{3}",
        marks=(("arrow", 0, 1), ("arrow", 2, 3), ("angle", 0, 1, 2, 3)),
    ),
    Predicate(
        name="eqdist", arity=4, symmetry="lengths", satisfaction=_eqdist,
        parameters={"log_tolerance": "distance_tolerance"},
        words="{0}–{1} as long as {2}–{3}",
        marks=(("equal", 0, 1), ("equal", 2, 3), ("ratio", 0, 1, 2, 3)),
    ),
)  # fmt: skip
"""In the order of their columns."""

PREDICATES: Registry[Predicate] = Registry("predicate", "algorithm.vocabulary.predicates")
"""Every predicate by name: the paper's, then what `register_predicate` was given."""

for _predicate in PAPER:
    PREDICATES.add(_predicate.name, _predicate)
