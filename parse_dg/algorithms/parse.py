"""PARSE: sparse compositions of spatial relations over learned primitives, with the loss of appendix B.

MIRO's regulariser of the backbone can be added; the paper has it not.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms.base import (
    Algorithm,
    AlgorithmConfig,
    BuildContext,
    Group,
    GroupSettings,
    LossTerms,
    Minibatch,
    linear,
)
from parse_dg.config import Config, NotNegative
from parse_dg.model.mutual_information import MutualInformation, MutualInformationConfig
from parse_dg.model.network import ParseNetwork, ParseOutput
from parse_dg.model.primitives import PrimitiveBottleneck, PrimitiveDescriptors, PrimitivesConfig
from parse_dg.model.regularisers import angle_repulsion, divergence, diversity_and_concentration, ownership, spread
from parse_dg.model.second_view import EquivarianceConfig, SecondView, lag
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import SWITCHES, check_budget, count_columns

SELECTION_MOMENTUM = 0.9
"""Of Λ where classes select. A batch holds few images of a class: the mean over several says what it lacks."""

SPREAD_GROWS = (0.1, 0.4)
"""The shares of training between which the weight of the spread grows from nothing to all of it: with maps held
narrow from the first step on, nothing was learnt."""


@dataclass(frozen=True, kw_only=True)
class BottleneckWeights(Config):
    """λ_bn and λ_conc: how strongly heat maps are asked to differ and to be concentrated; and two additions."""

    weight: NotNegative = 1.0
    """λ_bn, on L_div + λ_conc · L_conc."""
    concentration: NotNegative = 0.1
    """λ_conc."""
    spread: NotNegative = 0.0
    """An addition: the weight of the variance under the heat maps, once training is well under way."""
    ownership: NotNegative = 0.0
    """An addition: the weight of a cross-entropy: where a primitive is, evidence for it is to be the strongest."""

    def terms(
        self, z: PrimitiveDescriptors, evidence: Callable[[], Float[Tensor, "B K H W"]], progress: float
    ) -> LossTerms:
        """λ_bn · L_bn in its two parts, and what is added; `progress` is the share of training that is done."""
        diversity, concentration = diversity_and_concentration(z.heatmap)
        terms = {
            "diversity": self.weight * diversity,
            "concentration": self.weight * self.concentration * concentration,
        }
        if self.spread:
            begin, end = SPREAD_GROWS
            grown = min(max((progress - begin) / (end - begin), 0.0), 1.0)
            terms["spread"] = grown * self.spread * spread(z.extent, z.presence)
        if self.ownership:
            terms["ownership"] = self.ownership * ownership(z.heatmap, evidence(), z.presence)
        return terms


@dataclass(frozen=True, kw_only=True)
class ParseConfig(StructureConfig, AlgorithmConfig):
    """Settings of PARSE: the primitives, the structural layer, and the weights of the regularisers."""

    name = "parse"
    explains = True
    summary = "sparse compositions of spatial relations over learned primitives (this paper)"
    reference = "Nguyen & Nguyen 2026, arXiv:2605.06043"
    primitives: PrimitivesConfig = field(default_factory=PrimitivesConfig)
    bottleneck: BottleneckWeights = field(default_factory=BottleneckWeights)
    sparsity: NotNegative = 0.01
    """λ_sparse, on the mean ℓ1 norm of Λ."""
    angle_repulsion: NotNegative = 0.001
    """λ_ang, on the repulsion of the orientation angles."""
    guidance: NotNegative = 0.0
    """An addition: the weight of the cross-entropy of a linear classifier on the pooled features. It is there in
    training alone; no score depends on it."""
    distillation: NotNegative = 0.0
    """An addition: the weight of the divergence of PARSE's probabilities from the guide's, both softened by a
    temperature of 2: what the guide learns, relations are to say too. It needs a guide."""
    probe: NotNegative = 0.0
    """An addition: the weight of the cross-entropy of a linear classifier on the primitives' descriptors, which is
    No Relations' head, in training alone: primitives form before classes have chosen their relations."""
    equivariance: EquivarianceConfig = field(default_factory=EquivarianceConfig)
    """An addition: primitives are to follow when an image is moved and restyled; off."""
    miro: MutualInformationConfig = field(default_factory=MutualInformationConfig)
    """Holds the backbone to its pretrained features; off."""

    def check(self) -> None:
        check_budget(self.primitives.count, self.vocabulary)
        presence = "presence" in SWITCHES[self.vocabulary.families]
        expected = f"another start where vocabulary.families={self.vocabulary.families} leaves presence out"
        self.require(presence or self.composition.start != "presence", "composition.start", expected)
        self.require(self.guidance > 0 or not self.distillation, "distillation", "0 without algorithm.guidance")

    @property
    def ablation(self) -> str | None:
        return self.vocabulary.families if type(self) is ParseConfig else None  # another method has its own row

    def least_parameters(self, classes: int) -> Mapping[str, int]:
        return {"primitives.count": classes * count_columns(self.primitives.count, self.vocabulary)}

    def for_scoring(self) -> "ParseConfig":
        off = {name: replace(getattr(self, name), weight=0.0) for name in ("equivariance", "miro")}
        return replace(self, guidance=0.0, distillation=0.0, probe=0.0, **off)

    def build(self, context: BuildContext) -> "Parse":
        return Parse(self, context)


def guide_terms(
    method: Algorithm,
    features: Float[Tensor, "B F H W"],
    logits: Float[Tensor, "B C"],
    labels: Int[Tensor, "B"],
    *,
    guidance: float,
    distillation: float,
) -> LossTerms:
    """The cross-entropy of a method's guide, if it has one, and the divergence of the method's logits from it."""
    if method.guide is None:
        return {}
    guided = method.guide(features.mean((2, 3)))
    terms = {"guidance": guidance * method.cross_entropy(guided, labels)}
    if distillation:
        terms["distillation"] = distillation * divergence(logits, guided.detach())
    return terms


class Parse(Algorithm):
    """Backbone → primitive bottleneck → structural scoring layer."""

    config: ParseConfig
    for_training = ("guide.", "probe.", "mutual_information.")
    apart = (("composition", "network.structure.composition.weight"), ("encoders", "mutual_information."))

    def __init__(self, config: ParseConfig, context: BuildContext):
        super().__init__(config, context)
        backbone, classes, generator = context.backbone, context.classes, context.generator
        self.network = ParseNetwork(
            backbone,
            PrimitiveBottleneck(backbone.channels, config.primitives, generator),
            StructuralLayer(config.primitives.count, classes, config, generator, context.columns),
        )
        self.network.structure.composition.penalised = config.sparsity > 0
        self.progress = 0.0
        """The share of training that is done."""
        self.look = 0
        """How many steps this step's look at the applications no class uses stands for; 0: it has none."""
        self.guide = linear(backbone.channels, classes, generator) if config.guidance else None
        self.probe = linear(5 * config.primitives.count, classes, generator) if config.probe else None
        self.second_view = SecondView(config.equivariance) if config.equivariance.weight else None
        self.mutual_information = MutualInformation(backbone) if config.miro.weight else None

    @property
    def parse_network(self) -> ParseNetwork:
        return self.network

    def advance(self, step: int, steps: int) -> None:
        self.progress = (step - 1) / steps
        self.network.structure.composition.advance(self.progress)
        every = self.config.composition.select_every
        self.look = every if every and step % every == 0 else 0

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        output: ParseOutput = self.network(images)
        return output.logits

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        views, move = None, None
        if self.second_view is not None:
            views, move = self.second_view(example.images, len(example.labels), generator)
        # The backbone's maps, if they are asked for: then the pass cannot be replayed on CUDA.
        tapped = self.mutual_information is not None
        taps: AbstractContextManager[list[Tensor]] = self.network.backbone.tapped() if tapped else nullcontext([])
        with taps as maps:
            output: ParseOutput = self.network(example.images, generator, self.look, views)
        terms = {
            "cross_entropy": self.cross_entropy(output.logits, example.labels),
            **self.config.bottleneck.terms(
                output.descriptors, lambda: self.network.bottleneck.evidence(output.features), self.progress
            ),
        }
        weights = {"guidance": self.config.guidance, "distillation": self.config.distillation}
        terms |= guide_terms(self, output.features, output.logits, example.labels, **weights)
        if move is not None and output.second is not None:
            terms["equivariance"] = self.config.equivariance.weight * lag(output.descriptors, output.second, move)
        if self.probe is not None:
            probed = self.cross_entropy(self.probe(output.descriptors.flat()), example.labels)
            terms["probe"] = self.config.probe * probed
        if output.structure.l1 is not None:
            terms["sparsity"] = self.config.sparsity * output.structure.l1
        if self.config.angle_repulsion and "quaternary" in SWITCHES[self.config.vocabulary.families]:
            angles = self.network.structure.predicates.target_angle["orient"]
            terms["angle_repulsion"] = self.config.angle_repulsion * angle_repulsion(angles)
        if self.mutual_information is not None:
            regulariser = self.mutual_information(example.images, [each[: len(example.images)] for each in maps])
            terms["mutual_information"] = self.config.miro.weight * regulariser
        return terms

    def settings(self) -> dict[Group, GroupSettings]:
        settings: dict[Group, GroupSettings] = {"encoders": GroupSettings(rate_factor=self.config.miro.rate_factor)}
        if self.config.composition.select_every:
            # C / scale: with it the gradient of a class weight is that of the mean over the class's images, in
            # scores, whatever the number of classes and the scale; and a rate means the same everywhere.
            factor = len(self.network.structure.composition.weight) / self.config.composition.scale_start
            settings["composition"] = GroupSettings(rate_factor=factor, momentum=SELECTION_MOMENTUM)
        return settings
