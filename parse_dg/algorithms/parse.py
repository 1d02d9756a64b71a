"""PARSE: sparse compositions of spatial relations over learned primitives, with the loss of appendix B."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

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
from parse_dg.model.network import ParseNetwork, ParseOutput
from parse_dg.model.predicate import FAMILIES
from parse_dg.model.primitives import Heatmap, PrimitiveBottleneck, PrimitiveDescriptors, PrimitivesConfig
from parse_dg.model.regularisers import angle_repulsion, divergence, diversity_and_concentration, ownership, spread
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import SWITCHES, check_budget, count_columns

SELECTION_MOMENTUM = 0.9
"""Of Λ where classes select. A batch holds few images of a class: the mean over several says what it lacks."""


@dataclass(frozen=True, kw_only=True)
class BottleneckWeights(Config):
    """λ_bn and λ_conc: how strongly heat maps are asked to differ and to be concentrated; and two additions."""

    weight: NotNegative = 1.0
    """λ_bn, on L_div + λ_conc · L_conc."""
    concentration: NotNegative = 0.1
    """λ_conc."""
    spread: NotNegative = 0.0
    """An addition: the weight of the variance under the heat maps: one with two peaks far apart has much of it. It
    comes in as classes are learnt: held narrow from the first step, some runs learn nothing."""
    ownership: NotNegative = 0.0
    """An addition: the weight, as above, of a cross-entropy: at a primitive's centre its evidence is to be the
    strongest."""

    def terms(
        self, z: PrimitiveDescriptors, evidence: Callable[[], Heatmap], cross_entropy: Tensor, classes: int
    ) -> LossTerms:
        """λ_bn · L_bn in its two parts, and what is added, as far as classes are told apart: not at all where the
        cross-entropy is that of a guess, wholly where it is zero.
        """
        diversity, concentration = diversity_and_concentration(z.heatmap)
        terms = {
            "diversity": self.weight * diversity,
            "concentration": self.weight * self.concentration * concentration,
        }
        learnt = (1 - cross_entropy.detach() / math.log(max(classes, 2))).clamp_min(0)
        if self.spread:
            terms["spread"] = learnt * self.spread * spread(z.extent)
        if self.ownership:
            terms["ownership"] = learnt * self.ownership * ownership(evidence(), z.centre)
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
    retired: ClassVar[Mapping[str, object]] = {
        "probe": 0.0,
        "equivariance": {"weight": 0.0},
        "miro": {"weight": 0.0},
    }

    def check(self) -> None:
        check_budget(self.primitives.count, self.vocabulary)
        families = SWITCHES[self.vocabulary.families]
        presence = "presence" in families
        expected = f"another start where vocabulary.families={self.vocabulary.families} leaves presence out"
        self.require(presence or self.composition.start != "presence", "composition.start", expected)
        self.require(self.guidance > 0 or not self.distillation, "distillation", "0 without algorithm.guidance")
        if self.composition.presence_share is not None:
            both = presence and len(families) > 1
            expected = "none where algorithm.vocabulary.families leaves presence or relations out"
            self.require(both, "composition.presence_share", expected)
            start = zip(FAMILIES, self.composition.start_mass, strict=True)
            mass = sum(mass for family, mass in start if family in families[1:])
            expected = "something for the relations there are, where they have a share (presence_share)"
            self.require(mass > 0, "composition.start_mass", expected)

    @property
    def ablation(self) -> str | None:
        return self.vocabulary.families if type(self) is ParseConfig else None  # another method has its own row

    def least_parameters(self, classes: int) -> Mapping[str, int]:
        return {"primitives.count": classes * count_columns(self.primitives.count, self.vocabulary)}

    def for_scoring(self) -> "ParseConfig":
        return replace(self, guidance=0.0, distillation=0.0)

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
    for_training = ("guide.",)
    apart = (("composition", "network.structure.composition.weight"),)

    def __init__(self, config: ParseConfig, context: BuildContext):
        super().__init__(config, context)
        backbone, classes, generator = context.backbone, context.classes, context.generator
        self.network = ParseNetwork(
            backbone,
            PrimitiveBottleneck(backbone.channels, config.primitives, generator),
            StructuralLayer(config.primitives.count, classes, config, generator, context.columns),
        )
        self.network.structure.composition.penalised = config.sparsity > 0
        self.look = 0
        """How many steps this step's look at the applications no class uses stands for; 0: it has none."""
        self.guide = linear(backbone.channels, classes, generator) if config.guidance else None

    @property
    def parse_network(self) -> ParseNetwork:
        return self.network

    def advance(self, step: int, steps: int) -> None:
        self.network.structure.composition.advance((step - 1) / steps)
        every = self.config.composition.select_every
        self.look = every if every and step % every == 0 else 0

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B C"]:
        output: ParseOutput = self.network(images)
        return output.logits

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        output: ParseOutput = self.network(example.images, generator, self.look)
        cross_entropy, z = self.cross_entropy(output.logits, example.labels), output.descriptors
        terms = {"cross_entropy": cross_entropy}
        terms |= self.config.bottleneck.terms(
            z, lambda: self.network.bottleneck.evidence(output.features), cross_entropy, output.logits.shape[1]
        )
        weights = {"guidance": self.config.guidance, "distillation": self.config.distillation}
        terms |= guide_terms(self, output.features, output.logits, example.labels, **weights)
        if output.structure.l1 is not None:
            terms["sparsity"] = self.config.sparsity * output.structure.l1
        if self.config.angle_repulsion and "quaternary" in SWITCHES[self.config.vocabulary.families]:
            angles = self.network.structure.predicates.target_angle["orient"]
            terms["angle_repulsion"] = self.config.angle_repulsion * angle_repulsion(angles)
        return terms

    def settings(self) -> dict[Group, GroupSettings]:
        if not self.config.composition.select_every:
            return {}
        # C / scale: with it the gradient of a class weight is that of the mean over the class's images, in
        # scores, whatever the number of classes and the scale; and a rate means the same everywhere.
        factor = len(self.network.structure.composition.weight) / self.config.composition.scale_start
        return {"composition": GroupSettings(rate_factor=factor, momentum=SELECTION_MOMENTUM)}
