"""Class-specific structural compositions (section 3.2): Λ → w = sparsemax(Λ) → s = w·a.

Letters: C classes, M columns of the vocabulary, n of them that some class uses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.config import Config, Count, Positive, Rule, Whole
from parse_dg.devices import HostCopy
from parse_dg.model.predicate import FAMILIES
from parse_dg.model.sparsemax import Lambda, RestrictedSparsemax, Support, find_support, sparsemax
from parse_dg.model.vocabulary import Block, Vocabulary

PRESENCE_SPREAD = 0.2
"""start=presence: by how much of their mean the weights of a class differ at the start (standard deviation)."""
SHARE = Rule("between 0 and 1, and neither", lambda share: 0 < share < 1)
SHARES = Rule("four shares, 0 or more, the first positive", lambda shares: min(shares) >= 0 < shares[0])
BEGIN_WITH = 8
"""Training begins with at least this many times relations_per_class, so that there is room to select."""


@dataclass(frozen=True, kw_only=True)
class CompositionConfig(Config):
    """Where Λ starts and how scores become logits. The paper leaves both open (docs/paper_map.md)."""

    logit_scale: Literal["learnable", "fixed", "none"] = "learnable"
    """The factor of the logits: scores lie in [0, 1], and cross-entropy needs one. `none` is the literal text."""
    scale_start: Positive = 15.0
    """The factor at the start; if it is `fixed`, for good."""
    start: Literal["presence", "simplex", "zeros"] = "simplex"
    """`presence`: every class on the presence of every primitive, nearly equally weighted; relations are for
    selection to take up, or, if they have a share (presence_share), as in `simplex`. `simplex`: every family gets
    its share of weight, on a few random applications. `zeros`: all applications equally weighted."""
    start_mass: Annotated[tuple[float, float, float, float], SHARES] = (0.3, 0.3, 0.2, 0.2)
    """simplex: the shares of presence, binary, ternary and quaternary; families switched off drop out."""
    start_entries: Count = 8
    """simplex: how many applications of each predicate a class starts with."""
    start_margin: Positive = 0.02
    """presence, simplex: how far below the support every other application starts."""
    select_every: Whole = 0
    """An addition to the paper: every so many steps Λ is given the gradient of *all* class weights, also of those
    that are zero, so that a class can take up any application (selection.py). 0: only what has weight learns."""
    relations_per_class: Count | None = None
    """An addition: a class uses at most so many applications, those with the largest entries of Λ. Training begins
    with all that a class starts with, at least eight times as many, and comes down to it half-way."""
    presence_share: Annotated[float, SHARE] | None = None
    """An addition: presence has this share of every class's weight, from the first step to the last, and relations
    have the rest: a sparsemax each. A limit is divided alike. None: the shares are learnt."""
    retired: ClassVar[Mapping[str, object]] = {"start_std": ...}

    def check(self) -> None:
        room = self.presence_share is None or self.relations_per_class is None or self.relations_per_class > 1
        self.require(room, "relations_per_class", "2 or more where presence has a share (presence_share)")


@dataclass(frozen=True)
class Part:
    """Adjacent columns of Λ whose weights sum to a share of a class's: all of them, or presence and relations."""

    first: int
    last: int
    share: float
    at_most: int | None
    """How many of them a class may use, trained."""
    begins_with: int | None
    """How many when training begins."""

    def limit(self, progress: float) -> int | None:
        """How many of them a class may use: it comes down half-way, by the same factor every step."""
        if self.at_most is None or self.begins_with is None:
            return None
        factor: float = (self.begins_with / self.at_most) ** max(0.0, 1 - 2 * progress)
        return round(self.at_most * factor)


class ActiveWeights(NamedTuple):
    """w on the columns that some class uses; everywhere else it is exactly zero."""

    columns: Int[Tensor, "n"]
    """Which columns of Λ, ascending."""
    applications: Int[Tensor, "n"]
    """Which applications of the vocabulary those columns are."""
    weights: Float[Tensor, "C n"]
    l1: Float[Tensor, ""] | None
    """The mean ℓ1 norm of Λ: what the sparsity regulariser of appendix B weighs. None if nobody wants it."""


class _CachedWeights(NamedTuple):
    """The active weights of Λ as it was."""

    weight: Lambda
    """Held, so that its memory is not given to another."""
    state: tuple[object, ...]
    active: ActiveWeights


class PendingSupport(NamedTuple):
    """The support of Λ, part by part, found or being found on the device; how many columns are used is coming."""

    supports: tuple[Support, ...]
    used: HostCopy


class Composition(nn.Module):
    """Λ and the logit scale; `columns` are the applications of Λ's columns: all, or those a compact model kept."""

    columns: Tensor
    penalised = False
    """Whether `active` finds the ℓ1 norm of Λ as well, in the same gradient."""

    def __init__(
        self,
        classes: int,
        vocabulary: Vocabulary,
        config: CompositionConfig,
        generator: torch.Generator | None = None,
        columns: Int[Tensor, "M"] | None = None,
    ):
        super().__init__()
        self.config = config
        if columns is None:
            self.register_buffer("columns", torch.arange(vocabulary.size), persistent=False)
            start = initial_lambda(classes, vocabulary, config, generator)
        else:  # a compacted layer is always filled from a file
            ascend = columns.ndim == 1 and columns.dtype == torch.long and bool((columns.diff() > 0).all())
            if not (ascend and len(columns) and 0 <= int(columns[0]) <= int(columns[-1]) < vocabulary.size):
                raise ValueError(f"columns must be whole numbers that ascend within [0, {vocabulary.size})")
            self.register_buffer("columns", columns)
            start = torch.zeros(classes, len(columns))
        self.weight = nn.Parameter(start)
        presence = vocabulary.blocks[0].size if vocabulary.blocks[0].family == "presence" else 0
        self.parts = _divide(start, int((self.columns < presence).sum()), config)
        self.progress = 0.0
        """The share of training that is done."""
        self._last: _CachedWeights | None = None
        if config.logit_scale == "learnable":
            self.log_scale = nn.Parameter(torch.tensor(config.scale_start).log())

    def advance(self, progress: float) -> None:
        """Say what share of training is done: limits come down."""
        self.progress = progress

    def find_support(self) -> PendingSupport | None:
        """Begin to look for the columns that some class uses, without waiting for CUDA; None if they are known."""
        if self._known() is not None:
            return None
        with torch.no_grad():
            progress = self.progress if self.training else 1.0
            supports = tuple(
                find_support(self.weight[:, part.first : part.last], part.limit(progress), part.share)
                for part in self.parts
            )
            return PendingSupport(supports, HostCopy(torch.stack([support.used.sum() for support in supports])))

    def active(self, pending: PendingSupport | None = None) -> ActiveWeights:
        """The exact class weights, on the union of the classes' supports only; differentiable."""
        known = self._known()
        if known is not None:
            return known
        pending = pending or self.find_support()
        assert pending is not None
        counts: list[int] = pending.used.read().tolist()
        used = torch.cat([support.used for support in pending.supports])
        columns = torch.nonzero_static(used, size=sum(counts)).squeeze(1)
        given = self.weight, columns, pending.supports, counts, self.penalised
        weights, l1 = RestrictedSparsemax.apply(*given)  # type: ignore[no-untyped-call]
        found = ActiveWeights(columns, self.columns[columns], weights, l1)
        if not self.training and not torch.is_grad_enabled() and not self.weight.is_inference():
            self._last = _CachedWeights(self.weight.detach(), self._state(), found)
        return found

    def _known(self) -> ActiveWeights | None:
        """What `active` found last, if it was for evaluation and Λ has not changed since."""
        if torch.compiler.is_exporting():  # its weights are fixed, whatever the mode
            return self._last.active if self._last else None
        if self.training or torch.is_grad_enabled():
            self._last = None
        return self._last.active if self._last and self._last.state == self._state() else None

    def _state(self) -> tuple[object, ...]:
        """Another after any change of Λ."""
        weight = self.weight
        return weight.data_ptr(), weight.dtype, weight._version, self.penalised

    def train(self, mode: bool = True) -> "Composition":
        self._last = None
        return super().train(mode)

    def logits(self, scores: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Scores in [0, 1] → what cross-entropy is given."""
        if self.config.logit_scale == "none":
            return scores
        learnable = self.config.logit_scale == "learnable"
        return scores * (self.log_scale.exp() if learnable else self.config.scale_start)


def _divide(start: Lambda, presence: int, config: CompositionConfig) -> tuple[Part, ...]:
    """The parts of Λ; `presence` is how many of its columns, the first ones, are of presence."""
    columns, share, at_most = start.shape[1], config.presence_share, config.relations_per_class
    divided: list[tuple[int, int, float, int | None]] = [(0, columns, 1.0, at_most)]
    if share is not None and 0 < presence < columns:  # a compacted layer may have kept one of them alone
        first = None if at_most is None else min(max(1, round(at_most * share)), at_most - 1)
        rest = None if at_most is None or first is None else at_most - first
        divided = [(0, presence, share, first), (presence, columns, 1 - share, rest)]
    return tuple(Part(*each, _begins_with(start, *each)) for each in divided)


def _begins_with(start: Lambda, first: int, last: int, share: float, at_most: int | None) -> int | None:
    """With all that some class starts with, and with room to select."""
    if at_most is None:
        return None
    entries = start[:, first:last]
    used = find_support(entries, share=share).weights(entries) > 0
    return max(BEGIN_WITH * at_most, int(used.sum(1).max()))


def initial_lambda(
    classes: int, vocabulary: Vocabulary, config: CompositionConfig, generator: torch.Generator | None
) -> Lambda:
    """Λ before training. Without selection only what starts inside the support ever learns: this decides a lot."""
    shape = (classes, vocabulary.size)
    if config.start == "zeros":
        return torch.zeros(shape)
    start = torch.full(shape, -config.start_margin)
    if config.start == "simplex" or config.presence_share is not None:
        for row in start:
            _put_on_simplex(row, vocabulary, config, generator)
    if config.start == "presence":  # classes that were equal would give primitives no gradient
        presence = vocabulary.blocks[0].size
        drawn = 1 + PRESENCE_SPREAD * torch.randn(classes, presence, generator=generator)
        start[:, :presence] = (config.presence_share or 1.0) * sparsemax(drawn / presence)
    return start


def _put_on_simplex(
    row: Float[Tensor, "M"], vocabulary: Vocabulary, config: CompositionConfig, generator: torch.Generator | None
) -> None:
    """Some entries that sum to one: the row becomes its own sparsemax."""
    torch.randperm(vocabulary.primitives, generator=generator)  # not used: a seed keeps its published start
    mass = dict(zip(FAMILIES, config.start_mass, strict=True))
    if config.presence_share is not None:
        there = dict.fromkeys(block.family for block in vocabulary.blocks)  # in their order: a sum depends on it
        relations = sum(mass[family] for family in there if family != "presence")
        mass["presence"] = relations * config.presence_share / (1 - config.presence_share)
    drawn = {block: _draw(block, config.start_entries, generator) for block in vocabulary.blocks}
    drawn = {block: entries for block, entries in drawn.items() if len(entries) and mass[block.family]}
    families = [block.family for block in drawn]
    total = sum(mass[family] for family in dict.fromkeys(families))
    for block, entries in drawn.items():
        row[entries] = mass[block.family] / total / families.count(block.family) / len(entries)


def _draw(block: Block, count: int, generator: torch.Generator | None) -> Int[Tensor, "e"]:
    """Up to `count` different columns of the block; of presence, all of them."""
    if block.family == "presence":
        return torch.arange(block.start, block.start + block.size)
    return block.start + torch.randperm(block.size, generator=generator)[:count]
