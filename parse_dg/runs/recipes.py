"""Named recipes: a complete configuration each, from which single fields are changed with `--set`."""

from collections.abc import Callable
from dataclasses import replace

from parse_dg.algorithms import ALGORITHMS, AlgorithmConfig
from parse_dg.algorithms.erm_plus_plus import ErmPlusPlusConfig
from parse_dg.algorithms.gvrt.method import GvrtConfig
from parse_dg.algorithms.miro import TUNED as MIRO_TUNED, MiroConfig, TunedSettings
from parse_dg.algorithms.no_relations import NoRelationsConfig
from parse_dg.algorithms.parse import BottleneckWeights, ParseConfig
from parse_dg.config import change
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.benchmarks import DataConfig
from parse_dg.errors import unknown
from parse_dg.model.backbones.backbone import BackboneConfig
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.predicates import PredicatesConfig
from parse_dg.model.primitives import PrimitivesConfig
from parse_dg.model.vocabulary import VocabularyConfig
from parse_dg.runs.config import RunConfig
from parse_dg.training.averaging import AveragingConfig
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.trainer import TrainingConfig

PHOTOGRAPHS = BackboneConfig(name="resnet50", weights="imagenet", freeze_batchnorm=True)
"""V1 weights and BatchNorm statistics that stay frozen, as in all published figures of DomainBed."""


LENGTH = TrainingConfig(steps=5000, check_every=250)
"""Of a run on photographs, as in all published figures of DomainBed."""


OWN = ("parse", "no_relations")
"""The paper's own methods."""


TAUGHT = {
    "algorithm.primitives.count": 64,
    "algorithm.bottleneck.weight": 0.01,
    "algorithm.guidance": 5.0,
    "algorithm.distillation": 1.0,
    "optimizer.head_rate": 1e-3,
}
"""PARSE and No Relations on photographs: a guide holds the features and teaches the head, which has far to go."""


CHOOSING = {
    "algorithm.vocabulary.families": "relations",
    "algorithm.vocabulary.budget": 4000,
    "algorithm.composition.select_every": 10,
    "algorithm.composition.relations_per_class": 12,
    "algorithm.composition.scale_start": 10.0,
    "optimizer.composition_rate": 1e-2,
    "optimizer.composition_until": 0.25,
}
"""PARSE's classes on photographs: at most 12 relations each, without presence, chosen in the first quarter of
training; then they hold still, and features learn to fit them (docs/research.md)."""


def blueprints(algorithm: str) -> RunConfig:
    """A small backbone from a random start on 64-pixel images: what `parse-dg demo` runs.

    The backbone is local: a cell of its map sees a part, not the layout, so that composing the layout is left to
    the head. Rates are those of a random start; they and PARSE's settings were found by trying (docs/results.md).
    """
    primitives = PrimitivesConfig(temperature=2.0)
    bottleneck = BottleneckWeights(weight=0.1)
    optimizer = OptimizerConfig(backbone_rate=5e-3, head_rate=3e-3, schedule="cosine")
    base = RunConfig(
        augment=AugmentConfig(grayscale=0.5),  # colour says nothing of the class
        backbone=BackboneConfig(name="local"),
        mixstyle=MixStyleConfig(stages=()),
        optimizer=optimizer,
        training=TrainingConfig(steps=1000, check_every=100),
    )
    match algorithm:
        case "parse":
            config = ParseConfig(
                primitives=PrimitivesConfig(temperature=20.0, heatmap="sparsemax"),  # centres lie on what they name
                vocabulary=VocabularyConfig(families="relations"),  # every creature has the same parts
                composition=CompositionConfig(start_entries=128),
                bottleneck=replace(bottleneck, spread=4.0, ownership=0.3),
                sparsity=0.0,
            )
            return replace(base, algorithm=config, optimizer=replace(optimizer, composition_warmup_steps=400))
        case "no_relations":
            return replace(base, algorithm=NoRelationsConfig(primitives=primitives, bottleneck=bottleneck))
        case _:
            slower = replace(optimizer, backbone_rate=3e-3)  # 5e-3 does not train a linear head on pooled features
            plain = replace(base, algorithm=_default(algorithm), optimizer=slower)
            if algorithm == "erm_plus_plus":  # its phases are as long, of 1,000 steps, as its authors' are of 5,000
                short = ErmPlusPlusConfig(linear_steps=100)
                return replace(plain, algorithm=short, averaging=AveragingConfig(kind="sma", start=120))
            if algorithm == "gvrt":  # captions here are short
                return replace(plain, algorithm=GvrtConfig(sample_length=24))
            return plain


def paper(algorithm: str) -> RunConfig:
    """As the paper's figures were made, nothing added: PARSE and No Relations with their authors' published
    settings, every other method as its own authors release it (`domainbed`): the paper has its figures from there.

    What the text leaves open is taken from the authors' earlier code; where the two disagree this is the code, and
    `paper_text` the text. docs/paper_map.md has every field with its source. PARSE starts from V2 weights and the
    others do not: a table of this recipe does not compare methods alone. All 130,176 applications start equally
    weighted, so that the first steps evaluate every one of them: slow on a CPU.
    """
    if algorithm not in OWN:
        return domainbed(algorithm)
    primitives = PrimitivesConfig(presence_bias=0.0, temperature_rule="multiplies")
    bottleneck = BottleneckWeights(weight=0.0)
    config: AlgorithmConfig = NoRelationsConfig(primitives=primitives, bottleneck=bottleneck, extents=False)
    if algorithm == "parse":
        config = ParseConfig(
            vocabulary=VocabularyConfig(enumeration="paper"),
            predicates=PredicatesConfig(
                gate=False, edge_softness=0.0, edge_fade=0.0, alignment_tolerance=0.1, near_tolerance=0.2
            ),
            composition=CompositionConfig(logit_scale="fixed", scale_start=10.0, start="zeros"),
            primitives=primitives,
            bottleneck=bottleneck,
        )
    return RunConfig(
        data=DataConfig(image_size=224, crop_from=256, evaluation="centre"),
        augment=AugmentConfig(crop="fixed", jitter=0.0, grayscale=0.0, randaugment_ops=2, randaugment_magnitude=9),
        backbone=BackboneConfig(name="resnet50", weights="imagenet-v2"),
        algorithm=config,
        optimizer=OptimizerConfig(
            backbone_rate=1e-4, head_rate=1e-3, weight_decay=1e-4, composition_decay=1e-4, schedule="cosine"
        ),
        training=TrainingConfig(epochs=50.0, batch=32, check_every=100, label_smoothing=0.1, precision="float32"),
    )


def paper_text(algorithm: str) -> RunConfig:
    """`paper`, with the text's side where text and code disagree: the temperature divides, the bottleneck is
    regularised, scores are the logits, No Relations sees extents, and the backbone is that of the other methods.
    """
    config = paper(algorithm)
    if algorithm not in OWN:
        return config
    both = {"backbone.weights": "imagenet-v1", "algorithm.bottleneck.weight": 1.0}
    both |= {"algorithm.primitives.temperature_rule": "divides"}
    own = {"algorithm.composition.logit_scale": "none"} if algorithm == "parse" else {"algorithm.extents": True}
    return change(config, {**both, **own})


def pretrained(algorithm: str) -> RunConfig:
    """ResNet-50 from ImageNet on photographs of 224 pixels, every method trained alike.

    It takes over from PARSE's authors what helps every method: 1e-4 for the backbone, cosine, label smoothing 0.1,
    RandAugment and style mixing; weights, batches, crops and BatchNorm are DomainBed's. ERM gains more by it than
    methods differ (docs/research.md): a table in which only some of them had it would compare recipes. Only SagNet,
    which mixes styles itself, and MIRO, which holds features to those of unmixed images, go without style mixing.
    PARSE's own settings were found on PACS.
    """
    base = RunConfig(
        backbone=PHOTOGRAPHS,
        augment=AugmentConfig(randaugment_ops=2, randaugment_magnitude=9),
        optimizer=OptimizerConfig(backbone_rate=1e-4, head_rate=1e-4, schedule="cosine"),
        training=replace(LENGTH, label_smoothing=0.1),
    )
    return _on_photographs(base, algorithm)


def fine_grained(algorithm: str) -> RunConfig:
    """For classes that colours and small marks tell apart, such as the birds of CUB-DG: crop and flip alone.

    Otherwise it is `pretrained`, with 1e-3 for every head. Jitter, grayscale and RandAugment cost ERM 14 points on
    birds (docs/research.md). 200 classes want many primitives: PARSE has 1,024, at most 2,000 applications of a
    predicate, and classes that select slowly. Relations, which do not ask whether their primitives are there, have
    half of a class's weight: given the choice, birds take presence alone, and say nothing about places.
    """
    base = pretrained(algorithm)
    base = replace(base, augment=AugmentConfig(jitter=0.0, grayscale=0.0))
    settings: dict[str, object] = {"optimizer.head_rate": 1e-3}
    if algorithm in OWN:
        settings |= {"algorithm.primitives.count": 1024, "algorithm.guidance": 1.0}
    if algorithm == "parse":
        settings |= {
            "algorithm.vocabulary.families": "all",
            "algorithm.vocabulary.budget": 2000,
            "algorithm.predicates.gate": False,
            "algorithm.composition.start": "presence",
            "algorithm.composition.start_entries": 32,
            "algorithm.composition.presence_share": 0.5,
            "algorithm.composition.scale_start": 15.0,
            "algorithm.composition.relations_per_class": None,
            "optimizer.composition_rate": 5e-4,
            "optimizer.composition_until": None,
        }
    return change(base, settings)


def domainbed(algorithm: str) -> RunConfig:
    """The same backbone trained as DomainBed's code trains it: 5e-5, constant, no style mixing, nothing smoothed.

    GVRT has 5e-4 for everything but the backbone, as in its authors' code. PARSE and No Relations, which DomainBed
    does not have, mix styles and have 1e-3 for their heads.
    """
    head_rate = {"parse": 1e-3, "gvrt": 5e-4}.get(algorithm, 5e-5)
    optimizer = OptimizerConfig(backbone_rate=5e-5, head_rate=head_rate)
    base = RunConfig(backbone=PHOTOGRAPHS, optimizer=optimizer, training=LENGTH)
    if algorithm not in ("parse", "no_relations"):
        base = replace(base, mixstyle=MixStyleConfig(stages=()))
    return _on_photographs(base, algorithm)


def _on_photographs(base: RunConfig, algorithm: str) -> RunConfig:
    """A way of training with a method's own settings for pretrained backbones."""
    match algorithm:
        case "parse":
            return change(replace(base, algorithm=ParseConfig(sparsity=0.0)), {**TAUGHT, **CHOOSING})
        case "no_relations":
            return change(replace(base, algorithm=NoRelationsConfig()), TAUGHT)
        case "sagnet" | "miro":
            return replace(base, algorithm=_default(algorithm), mixstyle=MixStyleConfig(stages=()))
        case "erm_plus_plus":  # with averaged weights, and BatchNorm statistics that move
            moving = replace(base.backbone, freeze_batchnorm=False)
            averaging = AveragingConfig(kind="sma")
            return replace(base, algorithm=_default(algorithm), backbone=moving, averaging=averaging)
        case _:
            return replace(base, algorithm=_default(algorithm))


def _default(algorithm: str) -> AlgorithmConfig:
    return ALGORITHMS.find(algorithm)()


RECIPES: dict[str, Callable[[str], RunConfig]] = {
    "blueprints": blueprints,
    "pretrained": pretrained,
    "fine_grained": fine_grained,
    "domainbed": domainbed,
    "paper": paper,
    "paper_text": paper_text,
}
"""Every recipe by name; each takes the name of an algorithm."""
PAPERS = ("paper", "paper_text")


def default_recipe(data: str) -> str:
    """The recipe for a data set, where none is named."""
    return {"blueprints": "blueprints", "cub-dg": "fine_grained"}.get(data, "pretrained")


def build_config(recipe: str, algorithm: str, data: str = "blueprints") -> RunConfig:
    """The configuration of a recipe for an algorithm: a method that its authors tuned for a benchmark has their
    values there, and on Blueprints the paper's recipes have a small backbone.
    """
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    config = RECIPES[recipe](algorithm)
    if algorithm == "gvrt" and recipe != "blueprints":
        config = replace(config, algorithm=_gvrt(data, as_published=recipe not in ("pretrained", "fine_grained")))
    if recipe in PAPERS and data == "blueprints":
        return replace(config, backbone=BackboneConfig())
    if recipe in ("pretrained", "domainbed", *PAPERS) and algorithm == "miro" and data in MIRO_TUNED:
        return _tuned(config, MIRO_TUNED[data])
    return config


def _gvrt(data: str, *, as_published: bool) -> GvrtConfig:
    """GVRT as its authors set it: for captions of images, or for DomainBed's data sets and their definitions."""
    if data not in MIRO_TUNED:
        return GvrtConfig(repeat_end=as_published)
    length = 64 if data == "domainnet" else 32
    return GvrtConfig(tokens=0.1, reinforce=0.1, caption_length=length, repeat_end=as_published)


def _tuned(config: RunConfig, found: TunedSettings) -> RunConfig:
    """MIRO as its authors tuned it for a benchmark."""
    rates = replace(
        config.optimizer, backbone_rate=found.rate, head_rate=found.rate, weight_decay=found.weight_decay
    )
    return replace(config, algorithm=MiroConfig(weight=found.weight, dropout=found.dropout), optimizer=rates)
