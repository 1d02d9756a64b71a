"""PARSE as a method: what trains, what does not, and with which weights."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, Minibatch
from parse_dg.algorithms.parse import Parse, ParseConfig
from parse_dg.config import change
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import Model
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.vocabulary import SWITCHES
from tests.parts import seeded, small_backbone, spec_of

PREFIX = "network.structure.predicates."
SHAPES = {
    "log_steepness.above",
    "log_steepness.left",
    "log_steepness.contains",
    "margin.above",
    "margin.left",
    *(f"log_tolerance.{name}" for name in ("h_align", "v_align", "near", "tri", "turn", "orient", "eqdist")),
    *(f"target_angle.{name}" for name in ("tri", "turn", "orient")),
}
"""Every learnable shape; the last word is its predicate."""


def build(**settings: Any) -> Parse:
    start = seeded()
    backbone = small_backbone(start)
    config = change(ParseConfig(), {name.replace("__", "."): value for name, value in settings.items()})
    return Parse(config, BuildContext(backbone, 3, generator=start))


@pytest.fixture(scope="module")
def example() -> Minibatch:
    images = torch.randn(6, 3, 32, 32, generator=seeded(1))
    return Minibatch(images, torch.tensor([0, 1, 2, 0, 1, 2]), torch.zeros(6, dtype=torch.long))


def gradients(parse: Parse, example: Minibatch) -> dict[str, Tensor]:
    torch.stack(list(parse.train().losses(example, seeded()).values())).sum().backward()
    return {name: p.grad for name, p in parse.named_parameters() if p.grad is not None and p.grad.any()}


def test_the_shapes_are_all_the_parameters_of_the_predicates() -> None:
    names = {name.removeprefix(PREFIX) for name, _ in build().named_parameters() if name.startswith(PREFIX)}
    assert names == SHAPES


def test_without_a_penalty_lambda_moves_on_the_support_and_nowhere_else(example: Minibatch) -> None:
    parse = build(sparsity=0, angle_repulsion=0)
    composition = parse.network.structure.composition
    with torch.no_grad():
        active = composition.active()
        support = torch.zeros_like(composition.weight, dtype=torch.bool)
        support[:, active.columns] = active.weights > 0
    assert 0 < support.sum() < 0.5 * support.numel()
    gradient = gradients(parse, example)["network.structure.composition.weight"]
    assert not gradient[~support].any()
    assert (gradient[support] != 0).float().mean() > 0.99
    assert (gradient.sum(1).abs() < 1e-5 * gradient.abs().sum(1)).all()  # sparsemax: a row's gradient sums to 0


def test_the_penalty_pulls_every_entry_of_lambda_towards_zero() -> None:
    parse = build(sparsity=0.5)
    weight = parse.network.structure.composition.weight
    zero = Minibatch(torch.zeros(3, 3, 32, 32), torch.tensor([0, 1, 2]), torch.zeros(3, dtype=torch.long))
    term = parse.losses(zero, seeded())["sparsity"]
    assert term.item() == pytest.approx(0.5 * weight.abs().sum().item() / weight.numel(), 1e-4)
    term.backward()
    assert weight.grad is not None
    assert torch.allclose(weight.grad, 0.5 / weight.numel() * weight.sign(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("families", SWITCHES)
def test_the_shapes_of_the_families_in_use_move_and_the_others_do_not(families: str, example: Minibatch) -> None:
    parse = build(vocabulary__families=families, composition__start_entries=64, angle_repulsion=0)
    moving = {name.removeprefix(PREFIX) for name in gradients(parse, example) if name.startswith(PREFIX)}
    used = {name for name in SHAPES if PREDICATES[name.split(".")[1]].family in SWITCHES[families]}
    assert moving == used


@pytest.mark.parametrize(("start", "scale"), [("simplex", "learnable"), ("presence", "fixed"), ("zeros", "none")])
def test_every_start_and_scale_gives_gradients(start: str, scale: str, example: Minibatch) -> None:
    settings = {"composition__start": start, "composition__logit_scale": scale, "primitives__count": 5}
    found = gradients(build(**settings), example)
    assert "network.structure.composition.weight" in found
    assert ("network.structure.composition.log_scale" in found) == (scale == "learnable")
    assert "network.bottleneck.projection.weight" in found
    assert all(gradient.isfinite().all() for gradient in found.values())


def test_angles_are_pushed_apart_with_their_weight(example: Minibatch) -> None:
    parse = build(angle_repulsion=0.002)
    cosines = parse.network.structure.predicates.target_angle["orient"].detach().double().cos().tolist()
    pairs = [(a, b) for i, a in enumerate(cosines) for b in cosines[i + 1 :]]
    expected = sum(1 / ((a - b) ** 2 + 0.01) for a, b in pairs) / len(pairs)
    found = parse.losses(example, seeded())["angle_repulsion"]
    assert found.item() == pytest.approx(0.002 * expected, 1e-5)


@pytest.mark.parametrize("term", ["sparsity", "angle_repulsion"])
def test_a_weight_of_zero_leaves_its_term_out(term: str, example: Minibatch) -> None:
    assert term in build().losses(example, seeded())
    assert term not in build(**{term: 0}).losses(example, seeded())


def test_a_compact_layer_has_the_columns_it_is_given() -> None:
    start = seeded()
    backbone = small_backbone(start)
    columns = torch.tensor([0, 5, 40])
    parse = Parse(ParseConfig(), BuildContext(backbone, 3, generator=start, columns=columns))
    assert parse.groups()["composition"][0].shape == (3, 3)
    assert torch.equal(parse.state_dict()["network.structure.composition.columns"], columns)
    assert parse(torch.zeros(2, 3, 32, 32)).shape == (2, 3)


def test_guidance_is_the_cross_entropy_of_a_linear_layer_on_pooled_features(example: Minibatch) -> None:
    plain, guided = build(), build(guidance=0.5)
    assert guided.guide is not None
    with torch.no_grad():
        features = guided.network.backbone(example.images)
        rows = [guided.guide.weight @ image.mean((1, 2)) + guided.guide.bias for image in features]
    losses = [row.logsumexp(0) - row[label] for row, label in zip(rows, example.labels, strict=True)]
    terms, expected = (parse.losses(example, seeded()) for parse in (guided, plain))
    assert terms.pop("guidance").item() == pytest.approx(0.5 * torch.stack(losses).mean().item(), rel=1e-4)
    assert {name: value.item() for name, value in terms.items()} == {n: v.item() for n, v in expected.items()}
    found = gradients(guided, example)
    assert {"guide.weight", "guide.bias"} <= set(found)
    assert not torch.equal(
        found["network.backbone.conv1.weight"], gradients(plain, example)["network.backbone.conv1.weight"]
    )


def test_distillation_holds_scores_to_the_guide_and_teaches_the_guide_nothing(example: Minibatch) -> None:
    plain, distilled = build(guidance=0.5), build(guidance=0.5, distillation=3.0)
    terms, expected = (parse.losses(example, seeded()) for parse in (distilled, plain))
    with torch.no_grad():
        output = distilled.network(example.images)
        guided = distilled.guide(output.features.mean((2, 3)))  # type: ignore[misc]
    apart = 0.0
    for score, taught in zip(output.logits.tolist(), guided.tolist(), strict=True):
        p, q = ([math.exp(x / 2) / sum(math.exp(y / 2) for y in row) for x in row] for row in (taught, score))
        apart += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    found = terms.pop("distillation")
    assert found.item() == pytest.approx(3 * 4 * apart / len(guided), rel=1e-4)
    assert {name: value.item() for name, value in terms.items()} == {n: v.item() for n, v in expected.items()}
    found.backward()
    moved = {name for name, p in distilled.named_parameters() if p.grad is not None and p.grad.any()}
    assert "network.structure.composition.weight" in moved
    assert not any(name.startswith("guide.") for name in moved)


def test_a_vocabulary_of_relations_alone_learns_and_is_compacted(example: Minibatch) -> None:
    parse = build(vocabulary__families="relations", composition__select_every=1)
    assert {block.family for block in parse.network.structure.vocabulary.blocks} == {
        "binary",
        "ternary",
        "quaternary",
    }
    parse.advance(1, 2)
    assert gradients(parse, example)["network.structure.composition.weight"].any()
    spec = spec_of(parse.config)
    small, _ = compact(Model(spec, parse.eval()))
    with torch.no_grad():
        assert torch.equal(small.algorithm(example.images), parse(example.images))


@pytest.mark.parametrize("name", ["spread", "ownership"])
def test_what_narrows_maps_comes_in_as_classes_are_learnt(
    name: str, example: Minibatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = build(primitives__heatmap="sparsemax", primitives__temperature=20.0, **{f"bottleneck__{name}": 2.0})
    losses = [torch.tensor(of_a_guess * math.log(3), requires_grad=True) for of_a_guess in (1.5, 1.0, 0.5, 0.0)]
    found = []
    for loss in losses:
        monkeypatch.setattr(Parse, "cross_entropy", lambda *_, value=loss: value)
        found.append(parse.losses(example, seeded())[name])
    assert found[0] == found[1] == 0
    assert found[2].item() == pytest.approx(found[3].item() / 2)
    assert found[3] > 0
    found[2].backward()
    assert parse.network.bottleneck.projection.weight.grad.any()  # type: ignore[union-attr]
    assert losses[2].grad is None  # nothing is gained by telling classes apart worse


def test_no_score_depends_on_the_guide_and_a_compact_model_has_none(example: Minibatch) -> None:
    parse = build(guidance=0.5).eval()
    spec = spec_of(parse.config)
    with torch.no_grad():
        expected = parse(example.images)
        small, _ = compact(Model(spec, parse))
        assert torch.equal(small.algorithm(example.images), expected)
        parse.guide.weight.add_(1.0)  # type: ignore[union-attr]
        assert torch.equal(parse(example.images), expected)
    assert not any(name.startswith("guide.") for name in small.algorithm.state_dict())
    assert small.spec.algorithm == replace(parse.config, guidance=0.0)
