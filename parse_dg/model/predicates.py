"""The predicates of a vocabulary with their learned parameters, which all applications of a predicate share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from parse_dg.config import Config, NotNegative, Positive, require
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.predicate import Activation, BoundPrimitives, Predicate, Primitives
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import Applications, Vocabulary, VocabularyConfig


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
    """Evaluates applications of the predicates, and has the parameters that they declare: `log_tolerance.near`."""

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
            for kind, start in PREDICATES[name].start(config, vocabulary.config).items():
                kinds.setdefault(kind, {})[name] = nn.Parameter(start)
        for kind, parameters in kinds.items():
            self.add_module(kind, nn.ParameterDict(parameters))

    def forward(
        self, primitives: Primitives, parts: Sequence[Applications], shares: Float[Tensor, "n K"] | None = None
    ) -> Activation:
        """The satisfaction in [0, 1] of every application on every image; `shares`: `presence_shares`, if known."""
        satisfied = torch.cat([self._satisfaction(primitives, part) for part in parts])
        if not self.config.gate:
            return satisfied
        if shares is None:
            shares = presence_shares(parts, len(primitives.presence), satisfied.dtype)
        return satisfied * (shares @ primitives.log_presence).exp()

    def _satisfaction(self, primitives: Primitives, part: Applications) -> Activation:
        kinds: dict[str, Any] = dict(self.named_children())
        parameters = {kind: each[part.predicate] for kind, each in kinds.items() if part.predicate in each}
        predicate = PREDICATES[part.predicate]
        angle = None if predicate.angles is None else part.angle
        softness, fade = self.config.edge_softness, self.config.edge_fade
        return predicate.satisfaction(
            BoundPrimitives(primitives, part.primitives, angle, parameters, softness, fade)
        )


def presence_shares(parts: Sequence[Applications], K: int, dtype: torch.dtype) -> Float[Tensor, "n K"]:
    """The share of each primitive in the gate of each application, a geometric mean of presence."""
    shares = []
    for part in parts:
        arity, n = part.primitives.shape
        share = torch.zeros(n, K, dtype=dtype, device=part.primitives.device)
        if PREDICATES[part.predicate].gated:
            share.scatter_add_(1, part.primitives.T, share.new_full((n, arity), 1 / arity))
        shares.append(share)
    return torch.cat(shares)


def register_predicate(predicate: Predicate) -> Predicate:
    """Make a predicate known by its name, for `vocabulary.predicates`, after it was tried out."""
    _try_out(predicate)
    return PREDICATES.add(predicate.name, predicate)


def _try_out(predicate: Predicate) -> None:
    """Raise unless values lie in [0, 1] and gradients are finite, also of an image where primitives coincide."""
    K, B, generator = predicate.arity + 1, 5, torch.Generator().manual_seed(0)
    centre, extent = torch.rand(2, B, K, 2, generator=generator)
    centre[0] = 0.5
    z = PrimitiveDescriptors(2 * centre - 1, torch.rand(B, K, generator=generator), extent, torch.ones(B, K, 1, 1))
    given = [each.requires_grad_() for each in z[:3]]
    config, (n, unrank) = PredicatesConfig(), predicate.listing(K)
    angle = None if predicate.angles is None else torch.zeros(n, dtype=torch.long)
    bind = unrank(torch.arange(n)).T, angle, predicate.start(config, VocabularyConfig())
    bound = BoundPrimitives(Primitives.of(z), *bind, config.edge_softness, config.edge_fade)
    found: object = predicate.satisfaction(bound)
    where = f"the satisfaction of predicate {predicate.name!r}"
    ok = isinstance(found, Tensor) and found.shape == (n, B)
    require(ok, where, getattr(found, "shape", found), f"a tensor of {n} applications × {B} images")
    assert isinstance(found, Tensor)
    inside = bool(((found >= 0) & (found <= 1)).all())
    require(inside, where, (found.min().item(), found.max().item()), "in [0, 1], also where primitives coincide")
    if found.requires_grad:
        gradients = torch.autograd.grad(found.sum(), given, allow_unused=True)
        finite = all(each is None or bool(each.isfinite().all()) for each in gradients)
        require(finite, where, "one that is not", "of finite gradient, also where primitives coincide")
