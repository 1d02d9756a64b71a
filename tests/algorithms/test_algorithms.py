"""What every method promises the trainer: named terms, every parameter in one group, draws from the generator."""

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms import ALGORITHMS, Algorithm, BuildContext
from parse_dg.algorithms.base import Group, Minibatch
from parse_dg.algorithms.erm import Erm, ErmConfig
from parse_dg.algorithms.pooled import Pooled
from parse_dg.training.optimizer import OptimizerConfig
from tests.conftest import slow_but
from tests.parts import seeded, small_backbone, trainer_of

CLASSES = 4
DOMAINS = 2
WITHOUT_DRAWS = ["erm", "miro", "erm_plus_plus", "no_relations", "parse"]
"""Methods whose loss is the cross-entropy of the images as they are, and more."""


def build(name: str, *, smoothing: float = 0.0, seed: int = 0, stages: tuple[int, ...] = ()) -> Algorithm:
    start = seeded(seed)
    backbone = small_backbone(start, stages)
    config = ALGORITHMS[name]()
    return config.build(
        BuildContext(backbone, CLASSES, label_smoothing=smoothing, generator=start, domains=DOMAINS)
    )


@pytest.fixture(scope="module")
def example() -> Minibatch:
    """Two images of each class: noise, which is easy to tell apart and has nothing to generalise."""
    images = torch.randn(2 * CLASSES, 3, 32, 32, generator=seeded(9))
    labels = torch.arange(CLASSES).repeat(2)
    captions = torch.tensor([[1, 3, 3, 2]]).repeat(2 * CLASSES, 1)  # begin, two unknown words, end
    return Minibatch(images, labels, torch.tensor([0, 1]).repeat_interleave(CLASSES), captions)


def test_every_method_is_in_the_table_under_its_own_name() -> None:
    for name, config in ALGORITHMS.items():
        assert config.name == name
        assert config.__module__.removesuffix(".method") == f"parse_dg.algorithms.{name}"
        for words in (config.summary, config.reference):
            assert words
            assert "\n" not in words


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("parse", "no_relations")])
def test_the_mean_of_a_class_activation_map_and_the_bias_are_the_logit(name: str, example: Minibatch) -> None:
    algorithm = build(name).double().eval()
    assert isinstance(algorithm, Pooled)
    images = example.images.double()
    with torch.no_grad():
        features, found = algorithm.backbone(images), algorithm.logit_parts(images)
        assert found is not None
        for c, weight in enumerate(algorithm.classifier.weight):
            activation = (weight[:, None, None] * features).sum(1)  # (B, H, W)
            assert torch.allclose(found.parts[:, c] * activation[0].numel(), activation)
            logit = activation.mean((1, 2)) + algorithm.classifier.bias[c]
            assert torch.allclose(algorithm(images)[:, c], logit)
        assert torch.allclose(found.parts.sum((2, 3)) + found.bias, found.logits)
        assert torch.equal(found.logits, algorithm(images))


def test_a_forward_of_its_own_has_no_map(example: Minibatch) -> None:
    class Own(Erm):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images).exp()

    erm = build("erm")
    assert Own(ErmConfig(), BuildContext(erm.backbone, CLASSES)).logit_parts(example.images) is None


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_method_is_built_from_its_settings(name: str, example: Minibatch) -> None:
    algorithm = build(name, smoothing=0.1)
    assert type(algorithm.config) is ALGORITHMS[name]
    assert algorithm.label_smoothing == 0.1
    assert algorithm(example.images).shape == (2 * CLASSES, CLASSES)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_start_comes_from_the_generator(name: str) -> None:
    torch.manual_seed(1)
    one = build(name, seed=3).state_dict()
    torch.manual_seed(2)
    again, other = build(name, seed=3).state_dict(), build(name, seed=4).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in one.items())
    assert any(not torch.equal(value, other[key]) for key, value in one.items())


BOTTLENECK = ["diversity", "concentration"]
TERMS = {
    "erm": ["cross_entropy"],
    "dann": ["cross_entropy", "adversary"],
    "cdann": ["cross_entropy", "adversary"],
    "group_dro": ["cross_entropy"],
    "mixup": ["cross_entropy"],
    "sagnet": ["cross_entropy"],
    "coral": ["cross_entropy", "alignment"],
    "gvrt": ["cross_entropy", "align", "align_class", "tokens", "discriminator", "reinforce"],
    "miro": ["cross_entropy", "mutual_information"],
    "erm_plus_plus": ["cross_entropy"],
    "no_relations": ["cross_entropy", *BOTTLENECK],
    "parse": ["cross_entropy", *BOTTLENECK, "sparsity", "angle_repulsion"],
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_terms_of_the_loss_have_names(name: str, example: Minibatch) -> None:
    terms = build(name).losses(example, seeded())
    assert list(terms) == TERMS[name]
    assert all(term.shape == () and term.isfinite() for term in terms.values())


@pytest.mark.parametrize("name", slow_but("erm", "erm_plus_plus", "dann", "parse"))
def test_one_batch_can_be_learned_by_heart(name: str, example: Minibatch) -> None:
    """Through the trainer, which gives every turn its due."""
    algorithm = build(name).train()
    if name == "erm_plus_plus":
        algorithm.config = replace(algorithm.config, linear_steps=3)  # type: ignore[assignment,type-var,union-attr]
    rates = OptimizerConfig(backbone_rate=5e-3, head_rate=1e-2, composition_rate=1e-2)
    trainer = trainer_of(algorithm, rates, steps=60)

    def cross_entropy() -> float:
        with torch.no_grad():
            return algorithm.cross_entropy(algorithm(example.images), example.labels).item()

    before = cross_entropy()
    for step in range(60):
        terms = trainer.update(step, example)
        assert all(value.isfinite() for value in terms.values())
    assert cross_entropy() < 0.5 * before


@pytest.mark.parametrize("name", WITHOUT_DRAWS)
def test_cross_entropy_is_of_the_logits_smoothed(name: str, example: Minibatch) -> None:
    """Smoothing ε: (1 - ε) · CE of the label + ε · the mean CE over all classes, averaged over images."""
    sharp, smooth = build(name).eval(), build(name, smoothing=0.2).eval()
    with torch.no_grad():
        logs = sharp(example.images).log_softmax(1)
        of_label = -logs.gather(1, example.labels[:, None]).mean()
        of_all = -logs.mean()
        assert sharp.losses(example, seeded())["cross_entropy"].item() == pytest.approx(of_label.item(), 1e-5)
        found = smooth.losses(example, seeded())["cross_entropy"].item()
    assert found == pytest.approx((0.8 * of_label + 0.2 * of_all).item(), 1e-5)
    assert abs(of_label - of_all) > 1e-3


def test_cross_entropy_is_computed_in_float32_or_wider() -> None:
    algorithm, labels = build("erm"), torch.tensor([0, 1])
    logits = torch.tensor([[3.0, 1.0], [0.25, 0.5]])
    exact = algorithm.cross_entropy(logits.double(), labels)
    assert exact.dtype == torch.float64
    halved = algorithm.cross_entropy(logits.bfloat16(), labels)
    assert halved.dtype == torch.float32
    assert halved.item() == pytest.approx(exact.item(), 1e-6)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_parameter_is_in_exactly_one_group(name: str) -> None:
    algorithm = build(name)
    groups = algorithm.groups()
    assert {"backbone", "head", "composition"} <= set(groups) <= set(get_args(Group))
    found = [id(parameter) for parameters in groups.values() for parameter in parameters]
    assert len(found) == len(set(found))
    assert set(found) == {id(parameter) for parameter in algorithm.parameters()}


def test_only_parse_has_a_composition() -> None:
    sizes = {name: [tuple(p.shape) for p in build(name).groups()["composition"]] for name in ALGORITHMS}
    parse = build("parse")
    size = (CLASSES, parse.network.structure.vocabulary.size)  # type: ignore[union-attr]
    assert sizes == {name: [size] if name == "parse" else [] for name in ALGORITHMS}
    assert parse.groups()["composition"][0] is parse.network.structure.composition.weight  # type: ignore[union-attr]


def gradients(algorithm: Algorithm, example: Minibatch, only: tuple[str, ...] = ()) -> dict[str, Tensor | None]:
    terms = algorithm.train().losses(example, seeded())
    algorithm.zero_grad(set_to_none=True)
    torch.stack([value for name, value in terms.items() if not only or name in only]).sum().backward()
    return {name: parameter.grad for name, parameter in algorithm.named_parameters()}


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "gvrt"])  # its texts have other losses
def test_every_parameter_receives_a_gradient_from_the_classes_alone(name: str, example: Minibatch) -> None:
    """Every one of the network: adversaries and encoders have losses of their own."""
    algorithm = build(name)
    groups = algorithm.groups()
    aside = {id(p) for group in ("adversary", "encoders") for p in groups.get(group, ())}  # type: ignore[call-overload]
    of_network = {key for key, parameter in algorithm.named_parameters() if id(parameter) not in aside}
    found = {k: v for k, v in gradients(algorithm, example, only=("cross_entropy",)).items() if k in of_network}
    still = [key for key, gradient in found.items() if gradient is None or not gradient.any()]
    assert still == []
    assert all(gradient is not None and gradient.isfinite().all() for gradient in found.values())


@pytest.mark.parametrize("name", ["no_relations", "parse"])
def test_regularisers_of_the_heat_maps_reach_the_backbone(name: str, example: Minibatch) -> None:
    for term in ("diversity", "concentration"):
        found = gradients(build(name), example, only=(term,))
        prefix = "network." if name == "parse" else ""
        reached = {key for key, gradient in found.items() if gradient is not None and gradient.any()}
        assert f"{prefix}bottleneck.projection.weight" in reached
        assert f"{prefix}bottleneck.log_temperature" in reached
        assert any(key.startswith(f"{prefix}backbone.") for key in reached)
        assert not any("classifier" in key or "structure" in key for key in reached)


@pytest.mark.parametrize("name", ["no_relations", "parse"])
def test_the_weights_of_the_regularisers_are_applied(name: str, example: Minibatch) -> None:
    def terms(**weights: float) -> dict[str, float]:
        start = seeded(0)
        backbone = small_backbone(start)
        config: Any = ALGORITHMS[name]()
        config = replace(config, bottleneck=replace(config.bottleneck, **weights))
        algorithm = config.build(BuildContext(backbone, CLASSES, generator=start))
        return {key: value.item() for key, value in algorithm.eval().losses(example, seeded()).items()}

    base = terms(weight=1.0, concentration=1.0)
    changed = terms(weight=0.5, concentration=0.2)
    assert changed["diversity"] == pytest.approx(0.5 * base["diversity"], 1e-5)
    assert changed["concentration"] == pytest.approx(0.5 * 0.2 * base["concentration"], 1e-5)
    assert changed["cross_entropy"] == pytest.approx(base["cross_entropy"], 1e-6)
