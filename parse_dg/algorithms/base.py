"""What every training method is to the trainer: a network, the loss that trains it, and its parameters by group.

Letters, in every method: B batch, C classes, D features, S source domains, H W images.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.config import Config, Count, at_most
from parse_dg.data.loader import Words
from parse_dg.data.splits import Subset
from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.network import ParseNetwork
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.registry import Registry

Group = Literal["backbone", "head", "composition", "adversary", "encoders"]
"""Parameters that share a learning rate; `composition` is Λ, `adversary` what plays against the network, `encoders`
those of a regulariser."""

Width = Annotated[Count, at_most(2**14)]
"""Of a hidden layer."""

BACKBONE: tuple[tuple[Group, str], ...] = (("backbone", "backbone."), ("backbone", "network.backbone."))
"""How the names of a backbone's parameters begin."""

Layer = TypeVar("Layer", bound=nn.Module)
LossTerms = dict[str, Tensor]
"""The named terms whose sum is minimised, each with its weight applied."""


class Minibatch(NamedTuple):
    """A training batch as an algorithm sees it: augmented and normalised."""

    images: Float[Tensor, "B 3 H W"]
    labels: Int[Tensor, "B"]
    domains: Int[Tensor, "B"]
    captions: Int[Tensor, "B T"] | None = None
    """A sentence about each image, as the numbers of its words, where the method reads sentences."""

    def by_domain(self, domains: int) -> list["Minibatch"]:
        """The batch of each of `domains` source domains by itself; a batch has as many images of each, in order."""
        parts = (part.chunk(domains) for part in self if part is not None)
        return [Minibatch(*of_one) for of_one in zip(*parts, strict=True)]


class LogitParts(NamedTuple):
    """The logits of a batch as sums over places in the image: the bias plus all parts of a class is its logit."""

    logits: Float[Tensor, "B C"]
    parts: Float[Tensor, "B C *places"]
    """Of the cells of the feature map, (H, W): a class activation map over H·W. Or of K primitives."""
    bias: Float[Tensor, "C"]
    descriptors: PrimitiveDescriptors | None = None
    """Where the primitives are, if the parts are theirs."""


class Turn(NamedTuple):
    """One update of a step: the terms whose sum is minimised, and whose parameters move."""

    terms: LossTerms
    groups: tuple[Group, ...] | None = None
    """None: all of them."""
    afresh: bool = False
    """Whether the optimiser first forgets what it has gathered about these groups."""


class GroupSettings(NamedTuple):
    """What a method asks of the optimiser for one group of its parameters."""

    rate_factor: float = 1.0
    """Times the rate of the head; for `encoders`, times that of the backbone."""
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float | None = None
    """None: that of the run."""
    momentum: float | None = None
    """Given: this group descends by SGD along the running mean of its gradients, which keeps them in proportion;
    None: by Adam."""


@dataclass(frozen=True)
class BuildContext:
    """What a method is built from besides its settings."""

    backbone: Backbone
    classes: int
    _: KW_ONLY
    domains: int = 3
    """How many source domains there are."""
    label_smoothing: float = 0.0
    generator: torch.Generator | None = None
    """Draws the start of everything but the backbone."""
    vocabulary: Words | None = None
    """The words of the captions, for a method that reads them (`AlgorithmConfig.learn_vocabulary`)."""
    columns: Int[Tensor, "M"] | None = None
    """The applications that a compacted model of PARSE has kept; None: all."""


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(Config):
    """The settings of a method, which build it and say what it needs. A subclass is a frozen, keyword-only
    dataclass, registered under its `name`.
    """

    family: ClassVar[Registry[type["AlgorithmConfig"]]] = Registry("algorithm", "algorithm.name")
    """Every method by name."""
    name: ClassVar[str]
    method: ClassVar[type["Algorithm"]]
    """What it builds."""
    summary: ClassVar[str] = ""
    """One line: what the method does."""
    reference: ClassVar[str] = ""
    """Where it was published: authors, year, arXiv number or venue."""
    averaging: ClassVar[str] = "none"
    """The averaging of weights that is part of the method (`averaging.kind`): tables then do not name it."""
    explains: ClassVar[bool] = False
    """Whether its models have a `parse_network`, and so can be explained and compacted."""
    writes_sentences: ClassVar[bool] = False
    """Whether `Algorithm.sentences` puts images in words."""
    as_domainbed: ClassVar[bool] = True
    """Whether its authors freeze BatchNorm statistics and draw batches with replacement, as DomainBed does."""

    needs_domains: ClassVar[bool] = False
    """Whether it compares source domains, so that with one alone it would be another method."""
    compares_domains: ClassVar[bool] = False
    """Whether it needs as many images of every source domain in a batch."""

    def build(self, context: BuildContext) -> "Algorithm":
        """The method with these settings."""
        return self.method(self, context)

    @property
    def trains_twice(self) -> bool:
        """Whether a run has two stages (runs/two_stage.py)."""
        return False

    @property
    def head_steps(self) -> int:
        """In how many steps at the beginning the head moves alone."""
        return 0

    def check_interval(self, data_set: str) -> int | None:
        """Its authors' own number of steps between two checks, where they follow SWAD's protocol otherwise."""
        return None

    @property
    def ablation(self) -> str | None:
        """Its row in the paper's ablation: PARSE's predicate families, or `no_relations`; None: it has none."""
        return None

    def least_parameters(self, classes: int) -> Mapping[str, int]:
        """How many it has at the very least, by the field that decides it; only where they can be very many."""
        return {}

    def without_beginning(self) -> "AlgorithmConfig":
        """The same without steps that are particular to a beginning, so that a step's cost can be measured."""
        return self

    def for_scoring(self) -> "AlgorithmConfig":
        """The same without parts that only the loss uses (`Algorithm.for_training`)."""
        return self

    def learn_vocabulary(self, sources: Sequence[Subset]) -> Words | None:
        """The words of the training captions, for a method that reads them; raises where images have none."""
        return None

    def read_vocabulary(self, state: Mapping[str, Tensor]) -> Words | None:
        """The words in the weights of a trained model, for a method that reads captions."""
        return None


class Algorithm(nn.Module, ABC):
    """A trainable classifier."""

    for_training: ClassVar[tuple[str, ...]] = ()
    """How the names of parameters begin that only the loss uses: a compacted model goes without them."""
    apart: ClassVar[tuple[tuple[Group, str], ...]] = ()
    """The groups beside backbone and head, and how the names of their parameters begin."""

    def __init__(self, config: AlgorithmConfig, context: BuildContext):
        super().__init__()
        self.config, self.domains, self.label_smoothing = config, context.domains, context.label_smoothing
        self.guide: nn.Linear | None = None
        """A linear classifier on the pooled features that guides the backbone in training, for some methods."""

    @property
    def parse_network(self) -> ParseNetwork | None:
        """The attribute `network` of a method whose scores are sums of relations; only such a one can be compacted
        and explained.
        """
        return None

    def sentences(self, images: Float[Tensor, "B 3 H W"], labels: Int[Tensor, "B"] | None = None) -> list[str]:
        """What the method writes about normalised images, arguing for these classes or the predicted ones."""
        raise NotImplementedError(f"{type(self).__name__} puts no images in words")

    def logit_parts(self, images: Float[Tensor, "B 3 H W"]) -> LogitParts | None:
        """Where the logits of normalised images come from, if they are sums over places; None: they are not."""
        return None

    @abstractmethod
    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        """Normalised images → logits."""

    @abstractmethod
    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        """The terms of the loss on a batch; `generator` (on the CPU) supplies every random draw."""

    def advance(self, step: int, steps: int) -> None:
        """Told before every step of training that it is number `step` of `steps`, from 1: for what changes over a
        run. It must follow from the two numbers alone, so that a run that is resumed is where it was.
        """

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        """The updates of one step, one after the other: what comes next is computed after the last has been made.

        Most methods have one, of all parameters; those that play a game have several, or take turns step by step.
        """
        yield Turn(self.losses(example, generator))

    def settings(self) -> dict[Group, GroupSettings]:
        """What the method asks of the optimiser, for the groups that are not to be treated like all others."""
        return {}

    def groups(self) -> dict[Group, list[nn.Parameter]]:
        """Every trainable parameter, once, by group: those set `apart`, those of the backbone, the rest as head."""
        groups: dict[Group, list[nn.Parameter]] = {"backbone": [], "head": [], "composition": []}
        starts = (*self.apart, *BACKBONE)
        for name, parameter in self.named_parameters():
            group: Group = next((group for group, start in starts if name.startswith(start)), "head")
            groups.setdefault(group, []).append(parameter)
        return groups

    def cross_entropy(self, logits: Float[Tensor, "B C"], labels: Int[Tensor, "B"]) -> Float[Tensor, ""]:
        """The mean cross-entropy, with the run's label smoothing, in float32 or wider."""
        return F.cross_entropy(widened(logits), labels, label_smoothing=self.label_smoothing)


def widened(values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The same in float32 or wider, for what needs the digits."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def linear(inputs: int, outputs: int, generator: torch.Generator | None = None) -> nn.Linear:
    """nn.Linear with its usual start."""
    return started(nn.Linear(inputs, outputs), inputs, generator)


def started(layer: Layer, width: int, generator: torch.Generator | None = None) -> Layer:
    """A linear layer or an LSTM with its usual start, uniform in ±1/√width, drawn from `generator`."""
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(width**-0.5), width**-0.5, generator=generator)
    return layer
