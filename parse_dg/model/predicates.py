"""The predicates of a vocabulary with their learned parameters, which all applications of a predicate share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.config import Config, NotNegative, Positive
from parse_dg.model.predicate import PREDICATES, Activation, Bound, Primitives
from parse_dg.model.vocabulary import Applications, Vocabulary


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


KINDS = ("log_steepness", "margin", "log_tolerance", "target_angle")
"""The kinds of parameters of the paper's predicates, in the order of a model's parameters."""


class Predicates(nn.Module):
    """Evaluates applications of the predicates; what is learned are the parameters that predicates declare.

    A parameter is called `kind.predicate`, such as `log_tolerance.near`. What must stay positive is the exponential
    of a free parameter.
    """

    log_steepness: nn.ParameterDict
    margin: nn.ParameterDict
    log_tolerance: nn.ParameterDict
    target_angle: nn.ParameterDict

    def __init__(self, vocabulary: Vocabulary, config: PredicatesConfig):
        super().__init__()
        self.config = config
        # Kinds and, inside them, predicates stand in a fixed order: checkpoints of Adam number parameters.
        kinds: dict[str, dict[str, nn.Parameter]] = {kind: {} for kind in KINDS}
        for name in vocabulary.config.known:
            predicate, count = PREDICATES[name], vocabulary.config.angles(name)
            shape = () if predicate.angles is None else (count,)
            for kind, start in predicate.parameters.items():
                value = math.log(getattr(config, start)) if isinstance(start, str) else start
                kinds.setdefault(kind, {})[name] = nn.Parameter(torch.full(shape, value))
            if predicate.angles is not None:
                kinds["target_angle"][name] = nn.Parameter(spread_angles(count))
        for kind, parameters in kinds.items():
            self.add_module(kind, nn.ParameterDict(parameters))
        self.kinds = tuple(kinds)

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
        predicate = PREDICATES[part.predicate]
        bound = Bound(
            primitives=primitives,
            tuples=part.primitives,
            angle=None if predicate.angles is None else part.angle,
            parameters={
                kind: each[part.predicate] for kind in self.kinds if part.predicate in (each := getattr(self, kind))
            },
            edge_softness=self.config.edge_softness,
            edge_fade=self.config.edge_fade,
        )
        return predicate.satisfaction(bound)


def presence_shares(parts: Sequence[Applications], K: int, dtype: torch.dtype) -> Float[Tensor, "n K"]:
    """The share of each primitive in the gate of each application: a relation is gated by the geometric mean of its
    primitives' presence (an addition to the paper).
    """
    shares = []
    for part in parts:
        arity, n = part.primitives.shape
        share = torch.zeros(n, K, dtype=dtype, device=part.primitives.device)
        if PREDICATES[part.predicate].gated:
            share.scatter_add_(1, part.primitives.T, share.new_full((n, arity), 1 / arity))
        shares.append(share)
    return torch.cat(shares)


def spread_angles(count: int) -> Float[Tensor, "count"]:
    """Targets spread evenly over (0, π), half a step from both ends."""
    return (torch.arange(count) + 0.5) * (math.pi / count)
