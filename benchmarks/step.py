"""A training step: PARSE ÷ ERM, on a ResNet-50 with 96 images of 224 pixels.

A step is loss, gradient and update. Reading and augmenting images, the same for both, would only bring the ratio
nearer to one. The rates are so small that nothing moves: every repeat does the same work.

On a GPU whole steps are compared. On a CPU a step takes half a minute, nearly all of it in the backbone; there the
ERM step is measured whole, both heads are measured apart on given features, and the PARSE step is composed:
ERM step - ERM head + PARSE head.
"""

import copy
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.report import Goal, Row, Side
from benchmarks.setting import ENUMERATIONS, INITIAL, TRAINED, Enumeration, Setting, make_trained
from benchmarks.structural_layer import active_columns, descriptors
from benchmarks.timing import Budget, Call, Laps, in_turns
from parse_dg.algorithms import Algorithm, AlgorithmConfig, BuildContext
from parse_dg.algorithms.base import Minibatch
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.algorithms.parse import Parse, ParseConfig
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.primitives import PrimitivesConfig
from parse_dg.model.structure import StructuralLayer
from parse_dg.model.vocabulary import VocabularyConfig
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.trainer import Trainer, TrainingConfig

TITLE = "training step: PARSE ÷ ERM"
FROZEN = "training step with frozen BatchNorm: PARSE ÷ ERM"
BUDGET, LOOK_EVERY = 4000, 10
STILL = OptimizerConfig(backbone_rate=1e-12, head_rate=1e-12, composition_rate=1e-12)
"""Adam does all its work, and the numbers stay."""


def rows(setting: Setting) -> Iterator[Row]:
    comparison = Comparison(setting)
    for classes in setting.sizes.classes:
        for enumeration in ENUMERATIONS:
            goal = _goal(setting, classes, enumeration)
            yield from comparison.rows(classes, setting.sizes.primitives, enumeration, goal)
    goal = setting.goal("at most", 1.10) if setting.on_gpu else None
    yield comparison.selecting(setting.sizes.layer_classes, setting.sizes.many_primitives, goal)


def frozen_rows(setting: Setting) -> Iterator[Row]:
    """The recipe most people use: BatchNorm's statistics stay as they were loaded."""
    comparison, sizes = Comparison(setting, frozen=True), setting.sizes
    for classes, limit in ((sizes.classes[0], 1.05), (sizes.layer_classes, 1.07), (sizes.classes[-1], 1.10)):
        goal = setting.goal("at most", limit) if setting.on_gpu else None
        yield from comparison.rows(classes, sizes.primitives, "distinct", goal)
    goal = setting.goal("at most", 1.10) if setting.on_gpu else None
    yield comparison.selecting(sizes.layer_classes, sizes.many_primitives, goal)


def _goal(setting: Setting, classes: int, enumeration: Enumeration) -> Goal | None:
    """Set for an H200 in bf16."""
    if setting.on_gpu and classes == 7:
        return setting.goal("at most", 1.05)
    if setting.on_gpu and classes == 345 and enumeration == "paper":
        return setting.goal("at most", 1.10)
    return None


class Comparison:
    """Steps of PARSE and ERM on one backbone: whole on a GPU, composed on a CPU."""

    def __init__(self, setting: Setting, *, frozen: bool = False):
        self.setting = setting
        self.backbone = resnet(setting, frozen=frozen)
        self.erm_step: Laps | None = None
        if not setting.on_gpu:
            self.erm_step = _whole_erm_step(setting, self.backbone)
            self.backbone = FixedFeatures(_features(setting, self.backbone))

    def rows(
        self, classes: int, primitives: int, enumeration: Enumeration, goal: Goal | None = None
    ) -> Iterator[Row]:
        """The ratio at initialisation, and at trained sparsity."""
        erm = self._algorithm(classes, ErmConfig())
        parse = self._algorithm(classes, parse_config(primitives, enumeration))
        assert isinstance(parse, Parse)
        batch = example(self.setting, classes)
        calls = update(self.setting, parse, batch), update(self.setting, erm, batch)
        what = f"C = {classes}, K = {primitives}, {enumeration}"
        layer = parse.network.structure
        yield self._row(f"{what}, {INITIAL}", layer, calls, goal)
        make_trained(layer, self.setting.sizes)
        yield self._row(f"{what}, {TRAINED}", layer, calls, goal)

    def selecting(self, classes: int, primitives: int, goal: Goal | None) -> Row:
        """The ratio where classes select: ten steps each, one of which looks at every application."""
        config = ParseConfig(
            primitives=PrimitivesConfig(count=primitives),
            vocabulary=VocabularyConfig(budget=BUDGET),
            composition=CompositionConfig(start="presence", select_every=LOOK_EVERY),
            sparsity=0.0,
        )
        parse = self._algorithm(classes, config)
        assert isinstance(parse, Parse)
        batch = example(self.setting, classes)
        one, other = (update(self.setting, each, batch) for each in (parse, self._algorithm(classes, ErmConfig())))
        what = f"C = {classes}, K = {primitives}, at most {BUDGET:,} a predicate, {LOOK_EVERY} steps with a look"
        return self._row(what, parse.network.structure, (_repeated(one), _repeated(other)), goal, LOOK_EVERY)

    def _algorithm(self, classes: int, config: AlgorithmConfig) -> Algorithm:
        generator = torch.Generator().manual_seed(0)
        return config.build(BuildContext(copy.deepcopy(self.backbone), classes, generator=generator))

    def _row(
        self, what: str, layer: StructuralLayer, calls: tuple[Call, Call], goal: Goal | None, steps: int = 1
    ) -> Row:
        """A call makes so many `steps`."""
        setting = self.setting
        budget = setting.budget(seconds=0.5 if self.erm_step else 1.0)
        parse_laps, erm_laps = in_turns(setting.device, budget, *calls)
        in_use = active_columns(layer, descriptors(setting, layer.vocabulary.primitives))
        note = f"{in_use:,} of {layer.vocabulary.size:,} in use"
        if self.erm_step:
            return _composed(what, parse_laps, erm_laps, self.erm_step, note, steps)
        number = "step" if steps == 1 else f"{steps} steps"
        first, second = Side.timed(f"PARSE {number}", parse_laps), Side.timed(f"ERM {number}", erm_laps)
        return Row(what=what, first=first, second=second, goal=goal, note=note)


def _repeated(call: Call) -> Call:
    """As many steps as there are from one look to the next."""

    def several() -> None:
        for _ in range(LOOK_EVERY):
            call()

    return several


def _composed(what: str, parse_head: Laps, erm_head: Laps, erm_step: Laps, note: str, steps: int = 1) -> Row:
    heads = zip(parse_head.host, erm_head.host, strict=True)
    composed = [erm_step.median + (parse - erm) / steps for parse, erm in heads]
    return Row(
        what=what,
        first=Side(name="ERM step - ERM head + PARSE head", values=composed),
        second=Side.timed("ERM step", erm_step),
        note=f"composed, head {parse_head.median:.1f} against {erm_head.median:.1f} ms; {note}",
        parts={"PARSE head": parse_head.median, "ERM head": erm_head.median},
    )


class FixedFeatures(Backbone):
    """Stands for a backbone whose features are given; they receive a gradient, as a backbone's would."""

    fixed: Tensor

    def __init__(self, features: Tensor):
        super().__init__(channels=features.shape[1], freeze_batchnorm=False)
        self.register_buffer("fixed", features, persistent=False)

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.fixed.detach().requires_grad_()


def resnet(setting: Setting, *, frozen: bool = False) -> Backbone:
    """The backbone, from a random start; `frozen`: its BatchNorm statistics stay."""
    config = BackboneConfig(name=setting.sizes.backbone, freeze_batchnorm=frozen)
    return build_backbone(config, MixStyleConfig(stages=()), torch.Generator().manual_seed(0))


def parse_config(primitives: int, enumeration: Enumeration = "distinct") -> ParseConfig:
    """PARSE as it is by default, over one of the vocabularies."""
    return ParseConfig(
        primitives=PrimitivesConfig(count=primitives), vocabulary=VocabularyConfig(enumeration=enumeration)
    )


def random_images(setting: Setting, count: int) -> Tensor:
    """Normalised images, laid out as the trainer prepares them."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, setting.sizes.pixels, setting.sizes.pixels, generator=generator)
    return images.to(setting.device).contiguous(memory_format=torch.channels_last)


def example(setting: Setting, classes: int) -> Minibatch:
    """A batch of the training size."""
    count = setting.sizes.images
    labels = torch.arange(count, device=setting.device)
    return Minibatch(random_images(setting, count), labels % classes, labels * 3 // count)


def update(setting: Setting, algorithm: Algorithm, batch: Minibatch) -> Call:
    """A call that makes one training step."""
    trainer = Trainer(
        algorithm,
        iter(()),
        [],
        steps=1_000_000,
        training=TrainingConfig(),
        optimizer=STILL,
        augment=AugmentConfig(),
        generator=torch.Generator().manual_seed(0),
        device=setting.device,
    )
    steps = itertools.count(1)
    return lambda: trainer.update(next(steps), batch)


def _whole_erm_step(setting: Setting, backbone: Backbone) -> Laps:
    """One or two steps, after one on a few images: each may take half a minute."""
    classes = setting.sizes.classes[0]
    erm = ErmConfig().build(BuildContext(backbone, classes))
    batch = example(setting, classes)
    update(setting, erm, Minibatch(*(part[:8] for part in batch[:3])))()
    budget = Budget(rounds=2, least=1, seconds=20, warm_up=False)
    (laps,) = in_turns(setting.device, budget, update(setting, erm, batch))
    return laps


def _features(setting: Setting, backbone: Backbone) -> Tensor:
    """Random features of the shape of the backbone's."""
    with torch.no_grad():
        shape = backbone(random_images(setting, 1)).shape[1:]
    return torch.randn(setting.sizes.images, *shape, generator=torch.Generator().manual_seed(0)).relu()
