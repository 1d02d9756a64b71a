"""The soft spatial predicates of section 3.1, with the parameters each family shares over all its applications.

Letters: B images, K primitives, n applications. Inside this file a quantity of every primitive is laid out (K, B),
so that the primitives of an application are picked as whole rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.config import Config, NotNegative, Positive
from parse_dg.model.geometry import Vector, angle_between, damped, dot, fading, length, unit
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import Applications, Vocabulary

MIN_PRESENCE = 1e-30
"""Presence is at least this inside the logarithm of the gate."""

Activation = Float[Tensor, "n B"]


@dataclass(frozen=True, kw_only=True)
class PredicatesConfig(Config):
    """Where the learnable shape of each predicate starts, and whether relations are gated."""

    gate: bool = True
    """An addition to the paper: a relation is multiplied by the geometric mean of its primitives' presence, since
    a relation between parts that are not there is noise. False is the paper's text."""
    edge_softness: NotNegative = 0.4
    """An addition to the paper that changes no value: the gradient that reaches a primitive through the direction
    or the relative length of an edge v (in tri, turn, orient, eqdist) is multiplied by ‖v‖²/(‖v‖² + ε²). Edges much
    shorter than a cell of the map would drown every other gradient in noise. ε is in the grid's units; 0 is off."""
    edge_fade: NotNegative = 0.02
    """An addition to the paper: tri, turn, orient and eqdist are multiplied by ‖v‖²/(‖v‖² + ε²) of both edges,
    since the direction of an edge of no length is decided by rounding, and so would be the prediction. ε is in the
    grid's units, a fraction of a cell; 0 is the paper's text."""
    steepness: Positive = 5.0
    """κ of above, left and contains."""
    alignment_tolerance: Positive = 0.2
    """τ_h and τ_v."""
    near_tolerance: Positive = 0.3
    """ρ."""
    distance_tolerance: Positive = 0.3
    """τ_d of eqdist, on the logarithm of the ratio."""
    angle_tolerance: Positive = 0.4
    """β of tri and η of turn, in radians."""
    orientation_tolerance: Positive = 0.3
    """γ of orient, on the cosine."""


class Primitives(NamedTuple):
    """The descriptors of K primitives, laid out by primitive."""

    centre: Float[Tensor, "2 K B"]
    extent: Float[Tensor, "2 K B"]
    presence: Float[Tensor, "K B"]
    log_presence: Float[Tensor, "K B"]

    @classmethod
    def of(cls, z: PrimitiveDescriptors) -> "Primitives":
        """The same numbers as `z`."""
        centre, extent = z.centre.permute(2, 1, 0).contiguous(), z.extent.permute(2, 1, 0).contiguous()
        presence = z.presence.T.contiguous()
        return cls(centre, extent, presence, presence.clamp_min(MIN_PRESENCE).log())

    def edge(self, start: Int[Tensor, "n"], end: Int[Tensor, "n"]) -> Vector:
        """The directed edges between indexed primitives, each (n, B)."""
        x, y = (self.centre.index_select(1, end) - self.centre.index_select(1, start)).unbind()
        return x, y


class Predicates(nn.Module):
    """Evaluates applications of the predicates; the only parameters are the shapes of the families."""

    def __init__(self, vocabulary: Vocabulary, config: PredicatesConfig):
        super().__init__()
        self.config = config
        angles = vocabulary.config.angles
        # What must stay positive is the exponential of a free parameter.
        self.log_steepness = nn.ParameterDict(
            {name: _log(config.steepness) for name in ("above", "left", "contains")}
        )
        self.margin = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in ("above", "left")})
        self.log_tolerance = nn.ParameterDict(
            {
                "h_align": _log(config.alignment_tolerance),
                "v_align": _log(config.alignment_tolerance),
                "near": _log(config.near_tolerance),
                "tri": _log(config.angle_tolerance, angles("tri")),
                "turn": _log(config.angle_tolerance, angles("turn")),
                "orient": _log(config.orientation_tolerance, angles("orient")),
                "eqdist": _log(config.distance_tolerance),
            }
        )
        self.target_angle = nn.ParameterDict(
            {name: nn.Parameter(spread_angles(angles(name))) for name in ("tri", "turn", "orient")}
        )

    def forward(
        self, primitives: Primitives, parts: Sequence[Applications], shares: Float[Tensor, "n K"] | None = None
    ) -> Activation:
        """The satisfaction in [0, 1] of every application of `parts` on every image.

        `shares` is `presence_shares` of the same parts, for whoever has it already.
        """
        satisfied = torch.cat([self._satisfaction(primitives, part) for part in parts])
        if not self.config.gate:
            return satisfied
        if shares is None:
            shares = presence_shares(parts, len(primitives.presence), satisfied.dtype)
        return satisfied * (shares @ primitives.log_presence).exp()

    def _satisfaction(self, primitives: Primitives, part: Applications) -> Activation:
        match part.predicate:
            case "has":
                return primitives.presence.index_select(0, part.primitives[0])
            case "above" | "left":
                return self._directed(primitives, part)
            case "h_align" | "v_align" | "near":
                return self._close(primitives, part)
            case "contains":
                return self._contains(primitives, part)
            case "tri" | "turn":
                return self._angle(primitives, part)
            case "orient":
                return self._orient(primitives, part)
            case "eqdist":
                return self._equal_distance(primitives, part)
            case _:
                raise AssertionError(part.predicate)

    def _directed(self, primitives: Primitives, part: Applications) -> Activation:
        axis = primitives.centre[1 if part.predicate == "above" else 0]
        i, j = (axis.index_select(0, index) for index in part.primitives)
        steepness, margin = self.log_steepness[part.predicate].exp(), self.margin[part.predicate]
        return torch.sigmoid(steepness * (j - i - margin))

    def _close(self, primitives: Primitives, part: Applications) -> Activation:
        x, y = primitives.edge(*part.primitives)
        match part.predicate:
            case "h_align":
                squared = y.square()
            case "v_align":
                squared = x.square()
            case _:
                squared = x.square() + y.square()
        return _bell(squared, self.log_tolerance[part.predicate])

    def _contains(self, primitives: Primitives, part: Applications) -> Activation:
        outer, inner = part.primitives
        x, y = primitives.edge(outer, inner)
        width, height = primitives.extent.index_select(1, outer) - primitives.extent.index_select(1, inner)
        # The four gaps between the boxes' sides are width ± x and height ± y.
        slack = torch.minimum(width - x.abs(), height - y.abs())
        return torch.sigmoid(self.log_steepness["contains"].exp() * slack)

    def _angle(self, primitives: Primitives, part: Applications) -> Activation:
        i, j, k = part.primitives
        # tri: the interior angle at i; turn: the turn at j along i → j → k.
        u, v = self._edge(primitives, i, j), self._edge(primitives, i if part.predicate == "tri" else j, k)
        held = self._bell_around(angle_between(u, v), self.target_angle[part.predicate], part)
        return self._faded(held, u, v)

    def _orient(self, primitives: Primitives, part: Applications) -> Activation:
        i, j, k, l = part.primitives
        u, v = self._edge(primitives, i, j), self._edge(primitives, k, l)
        held = self._bell_around(dot(unit(u), unit(v)), self.target_angle["orient"].cos(), part)
        return self._faded(held, u, v)

    def _equal_distance(self, primitives: Primitives, part: Applications) -> Activation:
        i, j, k, l = part.primitives
        u, v = self._edge(primitives, i, j), self._edge(primitives, k, l)
        held = _bell((length(u).log() - length(v).log()).square(), self.log_tolerance["eqdist"])
        return self._faded(held, u, v)

    def _faded(self, held: Activation, u: Vector, v: Vector) -> Activation:
        """Less where an edge is too short to have a direction."""
        fade = self.config.edge_fade
        return held * fading(u, fade) * fading(v, fade) if fade else held

    def _edge(self, primitives: Primitives, start: Int[Tensor, "n"], end: Int[Tensor, "n"]) -> Vector:
        return damped(primitives.edge(start, end), self.config.edge_softness)

    def _bell_around(self, value: Tensor, targets: Tensor, part: Applications) -> Activation:
        target = targets[part.angle].unsqueeze(1)
        return _bell((value - target).square(), self.log_tolerance[part.predicate][part.angle].unsqueeze(1))


def presence_shares(parts: Sequence[Applications], K: int, dtype: torch.dtype) -> Float[Tensor, "n K"]:
    """The share of each primitive in the gate of each application: a relation is gated by the geometric mean of its
    primitives' presence (an addition to the paper); `has` is not gated.
    """
    shares = []
    for part in parts:
        arity, n = part.primitives.shape
        share = torch.zeros(n, K, dtype=dtype, device=part.primitives.device)
        if part.predicate != "has":
            share.scatter_add_(1, part.primitives.T, share.new_full((n, arity), 1 / arity))
        shares.append(share)
    return torch.cat(shares)


def spread_angles(count: int) -> Float[Tensor, "count"]:
    """Targets spread evenly over (0, π), half a step from both ends."""
    return (torch.arange(count) + 0.5) * (math.pi / count)


def _bell(squared: Tensor, log_tolerance: Tensor) -> Tensor:
    """exp(-d²/(2τ²))."""
    return torch.exp(-0.5 * squared * torch.exp(-2.0 * log_tolerance))


def _log(value: float, count: int | None = None) -> nn.Parameter:
    shape = () if count is None else (count,)
    return nn.Parameter(torch.full(shape, math.log(value)))
