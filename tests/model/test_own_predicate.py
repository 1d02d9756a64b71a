"""A predicate from one's own file, as docs/extend.md prints it, takes every way that ours take."""

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg import BoundPrimitives, Predicate, load_model, plugins, register_predicate
from parse_dg.cli import main
from parse_dg.data.framing import Picture
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.export import SUFFIXES, Format, export_model
from parse_dg.deploy.model_file import Model
from parse_dg.errors import InputError
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.explanation import explain, in_words, read_images
from parse_dg.explain.figures.explanation import explanation_figure
from parse_dg.explain.viewer_data import case_of
from parse_dg.model import fused, structure
from parse_dg.model.paper_predicates import PREDICATES
from parse_dg.model.predicate import Primitives
from parse_dg.model.predicates import Predicates, PredicatesConfig
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.structure import StructuralLayer, StructureConfig
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig
from parse_dg.runs.folder import read_config
from parse_dg.runs.run import execute
from tests.conftest import Tiny
from tests.model.reference import random_descriptors
from tests.parts import refusal

DOCUMENT = Path(__file__).parents[2] / "docs" / "extend.md"


@pytest.fixture(scope="module", autouse=True)
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Predicate]:
    """The predicate of the document, for the tests of this file."""
    section = DOCUMENT.read_text().partition("\n## A predicate\n")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    plugin = tmp_path_factory.mktemp("plugins") / "my_predicates.py"
    plugin.write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((PREDICATES, "_things"), (PREDICATES, "_origins"), (plugins, "_loaded")):
            patch.setattr(place, name, dict(getattr(place, name)))
        patch.setattr(sys, "path", list(sys.path))
        plugins.load_plugins([str(plugin)])
        yield PREDICATES["between"]
        del sys.modules["my_predicates"]


@pytest.fixture(scope="module")
def run(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes begin with much of its weight on the new predicate."""
    folder = tmp_path_factory.mktemp("runs") / "between"
    config = tiny(
        algorithm__vocabulary__predicates="between",
        algorithm__vocabulary__budget=None,
        algorithm__primitives__count=5,
        algorithm__composition__start="simplex",
        algorithm__composition__start_mass="0.1,0.1,0.7,0.1",
    )
    execute(config, folder, lambda step, check: None)
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return load_model(run)


def images(count: int = 3) -> Tensor:
    return torch.randint(256, (count, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def logits_of(model: Model) -> Tensor:
    with torch.no_grad():
        return model.algorithm(model.prepare(images()))


def test_its_columns_follow_ours_and_hold_every_value_once() -> None:
    ours, both = (Vocabulary(4, VocabularyConfig(predicates=names)) for names in ((), ("between",)))
    found = both.names(torch.arange(both.size))
    assert found[: ours.size] == ours.names(torch.arange(ours.size))
    ends = [(1, 2), (1, 3), (2, 3)]
    assert found[ours.size : ours.size + 3] == [f"between(p{i}, p0, p{k})" for i, k in ends]
    assert both.size - ours.size == 4 * math.comb(3, 2)
    switched = Vocabulary(4, VocabularyConfig(predicates=("between",), families="binary+quaternary"))
    assert switched.blocks[-1].predicate == "eqdist"


def test_it_learns_and_is_loaded_as_it_was_saved(model: Model, run: Path) -> None:
    learned = model.algorithm.state_dict()["network.structure.predicates.log_tolerance.between"]
    assert learned.shape == ()
    assert learned.item() != pytest.approx(math.log(0.3), abs=1e-7)
    assert torch.equal(logits_of(model), logits_of(load_model(run)))
    assert model.spec.algorithm.vocabulary.predicates == ("between",)


def test_it_is_explained_said_and_drawn(model: Model) -> None:
    (reading, *_) = read_images(model, images())
    explanation = reading.explain()
    mine = [relation for relation in explanation.relations if relation.predicate == "between"]
    for relation in mine:
        i, j, k = relation.primitives
        assert relation.name == f"between(p{i}, p{j}, p{k})"
        assert relation.words == f"p{j} half-way between p{i} and p{k}"
    assert mine
    assert describe_classes(model)[0].families["ternary"] > 0.5
    case = case_of(reading, Picture(images()[0].permute(1, 2, 0).numpy()), title="one")
    drawn = [
        each for each in case["explanations"][reading.predicted]["relations"] if each["predicate"] == "between"
    ]
    for each in drawn:
        i, j, k = each["primitives"]
        assert (each["family"], each["marks"]) == ("ternary", [["line", i, j], ["line", j, k]])
    assert drawn


@pytest.mark.slow
def test_it_is_in_the_terminal_the_report_and_figures(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "classes", str(run), "--top", "400"]) == 0
    assert "half-way between" in capsys.readouterr().out
    assert main(["report", str(run), "--images", "1", "--out", str(tmp_path / "report.html")]) == 0
    assert "half-way between" in (tmp_path / "report.html").read_text()
    image = images()[0]
    explanation = explain(load_model(run), image)
    mine = tuple(each for each in explanation.relations if each.predicate == "between")
    picture = Picture(image.permute(1, 2, 0).numpy())
    explanation_figure(picture, replace(explanation, relations=mine), tmp_path / "why.png")
    assert (tmp_path / "why.png").stat().st_size > 10_000


def test_it_is_compacted_without_loss(model: Model) -> None:
    small, _ = compact(model)
    assert torch.equal(logits_of(small), logits_of(model))
    terms = [
        {(term.name, term.weight) for one in describe_classes(each) for term in one.terms}
        for each in (small, model)
    ]
    assert terms[0] == terms[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_it_is_exported(model: Model, kind: Format, tmp_path: Path) -> None:
    path = tmp_path / f"model{SUFFIXES[kind]}"
    assert export_model(model, images(8).float() / 255, path, kind).largest_difference < 1e-4


def test_a_model_is_refused_in_one_line_without_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PREDICATES._things, "between")
    expected = r"needs the plug-in my_predicates: pass --plugin my_predicates \(for predicate between"
    for refused in (lambda: load_model(run), lambda: read_config(run)):
        with pytest.raises(InputError, match=expected):
            refused()
    with pytest.raises(InputError, match="must be registered: 'between' is in no plug-in"):
        VocabularyConfig(predicates=("between",))


def test_kernels_that_do_not_know_it_leave_it_to_the_plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = StructuralLayer(5, 3, StructureConfig(vocabulary=VocabularyConfig(predicates=("between",)))).double()
    first = layer.vocabulary.blocks[-1].start
    z, every = random_descriptors(2, 5, seed=1), torch.arange(layer.vocabulary.size)
    expected = layer.evaluate(z, every), layer(z).scores
    seen: list[Tensor] = []

    def evaluate(
        predicates: Predicates, vocabulary: Vocabulary, z: PrimitiveDescriptors, columns: Tensor
    ) -> Tensor:
        seen.append(columns)
        parts = list(vocabulary.applications(columns))
        found: Tensor = predicates(Primitives.of(z), parts) if parts else z.centre.new_zeros(0, len(z.centre))
        return found.T

    kernels = ModuleType("parse_dg.model.fused.predicates")
    kernels.evaluate = evaluate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, kernels.__name__, kernels)
    monkeypatch.setattr(fused, "usable", lambda tensor: tensor is z.centre)
    assert torch.equal(layer.evaluate(z, every), expected[0])
    monkeypatch.setattr(structure, "AT_ONCE", 10)  # the plain part keeps its steps: it is scored part by part
    monkeypatch.setattr(structure, "PART", 20)
    torch.testing.assert_close(layer(z).scores, expected[1])
    assert len(seen) > 2
    for some in (every[first + 3 :], every[: first - 3]):
        assert torch.equal(layer.evaluate(z, some), expected[0][:, some])
    assert all((columns < first).all() for columns in seen)


def test_several_target_angles_have_columns_and_parameters_of_their_own() -> None:
    def leaning(bound: BoundPrimitives) -> Tensor:
        u = bound.direction(0, 1)
        away = torch.atan2(u[1].abs(), u[0].abs() + 1e-3) - bound.parameter("target_angle")
        return bound.faded(torch.exp(-away.square() * bound.parameter("sharpness").square()), u, u)

    predicate = Predicate(
        name="leaning",
        arity=2,
        satisfaction=leaning,
        parameters={"sharpness": 2},
        angles=3,
        words="{0}–{1} leans by {angle}",
    )
    register_predicate(predicate)
    vocabulary = Vocabulary(3, VocabularyConfig(predicates=("leaning",)))
    predicates = Predicates(vocabulary, PredicatesConfig(gate=False))
    assert predicates.state_dict()["sharpness.leaning"].tolist() == [2, 2, 2]
    last = vocabulary.blocks[-1]
    (part,) = vocabulary.applications(torch.arange(last.start, vocabulary.size))
    z = random_descriptors(1, 3, seed=2)
    found = predicates.double()(Primitives.of(z), [part])[:, 0]
    assert vocabulary.names(torch.tensor([last.start + 7])) == ["leaning[1](p0, p2)"]
    x, y = (z.centre[0, 2] - z.centre[0, 0]).abs().tolist()
    fade = (x * x + y * y) / (x * x + y * y + 0.02**2)
    expected = math.exp(-4 * (math.atan2(y, x + 1e-3) - math.pi / 2) ** 2) * fade**2
    assert found[7].item() == pytest.approx(expected, rel=1e-6)
    assert in_words(predicates, "leaning", 1, (0, 2)) == "p0–p2 leans by 90°"


def right(**changes: Any) -> Predicate:
    given = {"name": "right", "arity": 2, "satisfaction": lambda bound: bound.presence(0), "words": "{0} {1}"}
    return Predicate(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "not right"}, "letters, digits and '_'"),
        ({"name": "values"}, "no method of a dictionary"),
        ({"name": "above"}, "predicate 'above' is there already"),
        ({"arity": 0}, "arity must be 1 with symmetry none, found 0"),
        ({"symmetry": "reversal"}, "arity must be 3 with symmetry reversal, found 2"),
        ({"parameters": {"forward": 0.0}}, "a parameter must be .* that is not taken, found 'forward'"),
        ({"marks": (("blob", 0),)}, "mark 'blob': valid are ring"),
        ({"marks": (("arrow", 0, 2),)}, "mark arrow must be 2 places from 0 to 1, found"),
        ({"words": "{0} beside {2}"}, r"words may hold \{0\}, \{1\}, \{angle\}, found"),
        ({"satisfaction": lambda bound: 1.0}, "must be a tensor of 6 applications × 5 images, found 1.0"),
        ({"satisfaction": lambda bound: bound.presence(0).sum(0)}, r"found torch.Size\(\[5\]\)"),
        ({"satisfaction": lambda bound: 2 + bound.x(0)}, r"must be in \[0, 1\]"),
        ({"satisfaction": lambda bound: bound.x(0) / bound.x(0)}, r"must be in \[0, 1\]"),
        (
            {"satisfaction": lambda bound: (bound.x(0) - bound.x(1)).square().sqrt().exp().clamp(0, 1)},
            "finite grad",
        ),
    ],
)
def test_a_predicate_that_cannot_be_one_is_refused_in_one_line(changes: dict[str, Any], expected: str) -> None:
    before = list(PREDICATES)
    assert re.search(expected, refusal(lambda: register_predicate(right(**changes))))
    assert list(PREDICATES) == before


@pytest.mark.parametrize(("symmetry", "arity", "orders"), [("full", 3, 6), ("apex", 4, 6), ("none", 3, 1)])
def test_symmetries_of_any_number_of_primitives(symmetry: Any, arity: int, orders: int) -> None:
    predicate = right(symmetry=symmetry, arity=arity)
    total, unrank = predicate.listing(5)
    found = {tuple(row) for row in unrank(torch.arange(total)).tolist()}
    assert len(found) == total == math.perm(5, arity) // orders
    free = {"full": 0, "apex": 1, "none": arity}[symmetry]
    assert all(list(row[free:]) == sorted(set(row[free:])) for row in found)
