"""The report's page: everything is in it, in one file, and no name in it is ever read as anything but text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.errors import InputError
from parse_dg.explain.classes import ClassCard, ClassComposition, Term
from parse_dg.explain.explanation import PrimitivePosition
from parse_dg.explain.faces import Face, PrimitiveFaces
from parse_dg.explain.report.curve import Curve, CurvePoint
from parse_dg.explain.report.gather import TERMS
from parse_dg.explain.report.page import DomainScore, Gallery, Report, check_place, report_page, write_report
from parse_dg.tables.text_table import TextTable

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;"
PIXEL = "data:image/png;base64,iVBORw0KGgo="


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and the text of each kind of element."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(
            part for tag, parts in self.texts.items() if tag not in ("script", "style") for part in parts
        )


def composition(name: str, weights: tuple[float, ...] = (0.7, 0.3)) -> ClassComposition:
    predicates = ("has", "above", "tri", "orient")
    terms = (
        Term(f"{predicates[n % 4]}(p{n})", f"words {n}", predicates[n % 4], (n, n + 1), weight)
        for n, weight in enumerate(weights)
    )
    families = {"presence": weights[0], "binary": 1 - weights[0]}
    strongest = tuple(terms)[:TERMS]
    rest = 1 - sum(term.weight for term in strongest)
    return ClassComposition(name=name, relations=len(weights), families=families, terms=strongest, rest=rest)


def case(title: str = "one", truth: str = "cat") -> dict[str, Any]:
    return {
        "title": title,
        "image": PIXEL,
        "truth": truth,
        "predicted": "dog",
        "top": [{"name": "dog", "probability": 0.6, "score": None}],
        "explanations": {},
        "places": [],
        "heatmaps": None,
    }


def score(domain: str, role: Any, confusion: list[list[int]]) -> DomainScore:
    counts = np.array(confusion)
    return DomainScore(
        domain=domain,
        images="all images, never seen in training",
        role=role,
        correct=int(counts.trace()),
        total=int(counts.sum()),
        confusion=counts,
    )


@pytest.fixture
def report() -> Report:
    points = [
        CurvePoint(step=10, loss=2.0, validation={"photo": 0.2, "paint": 0.4}, mean=0.3),
        CurvePoint(step=20, loss=1.0, validation={"photo": 0.6, "paint": 0.8}, mean=0.7),
        CurvePoint(step=30, loss=0.5, validation={}, mean=None),
    ]
    return Report(
        title="parse on shapes",
        accuracy=0.8125,
        headline="accuracy on sketch",
        facts=(("method", "parse"),),
        rules=("The target is scored on all of its images.",),
        notes=("Left out: the moon.",),
        classes=("cat", "dog"),
        scores=(
            score("sketch", "result", [[5, 3], [0, 8]]),
            score("photo", "source", [[6, 2], [1, 7]]),
            score("paint", "source", [[8, 0], [0, 0]]),
        ),
        galleries=(Gallery(title="sketch: wrong", words="3 of 16", cases=(case(),)),),
        compositions=(composition("cat"), composition("dog", (0.05,) * 20)),
        compaction=(TextTable("Threshold 0", ("", "full", "compact"), (("applications", "20", "12"),), ("note",)),),
        curve=Curve(points=tuple(points), chosen=20, images="held-out images"),
        config={"data.target": "sketch", "seed": "0"},
        commands=(("Again:", "parse-dg train --config config.json --out repeated"),),
        environment={"python": "3.11"},
    )


def test_faces_names_and_cards(report: Report) -> None:
    mine = Face(domain=HOSTILE, index=0, label="cat", evidence=1.0, image=PIXEL)
    every = ((mine, mine), *((mine,) for _ in range(9)))
    faces = PrimitiveFaces(primitives="x", images={"photo": 5}, faces=every, layouts=())
    term = Term("above(p3, p4)", f"{HOSTILE} above p4", "above", (3, 4), 0.2)
    place = PrimitivePosition(3, 0.1, 0.2, 0.1, 0.1, 0.9)
    card = ClassCard(name="cat", relations=(term,), places=(place, replace(place, primitive=4)), images=12)
    page = Page(report_page(replace(report, faces=faces, names={3: "beak <b>"}, cards=(card,))))
    assert "p3 beak <b>" in page.text
    assert "patches where it is strongest among 5 training images of the source domains (photo)" in page.text
    ids = {each["id"] for each in page.all("image") if each["href"] == PIXEL}
    assert len(ids) == 11
    used = [str(each["href"]) for each in page.all("use")]
    assert {each.removeprefix("#") for each in used} <= ids
    assert len(used) > 11  # in the list of primitives, and with every relation
    assert [each["data-card"] for each in page.all("svg") if "data-card" in each] == ["0"]
    data = json.loads(page.texts["script"][0])
    assert data["known"]["names"] == {"p3": "beak <b>"}
    drawn = {"words": f"{HOSTILE} above p4", "family": "binary", "marks": [["arrow", 3, 4]]}
    assert data["cards"][0]["relations"] == [drawn]
    assert page.text.count(drawn["words"]) == 1
    assert not page.all("img")


def test_everything_is_on_the_page(report: Report) -> None:
    text = Page(report_page(report)).text
    for words in (
        *("81.2%", "accuracy on sketch", "The target is scored on all of its images.", "Left out: the moon."),
        *("13 of 16", "62.5%", "Mean of the 2 source rows: 90.6%", "words 0", "0.700", "applications", "target"),
        *("parse-dg train --config config.json --out repeated", "3.11", "step 20", "Confusion matrix: photo"),
    ):
        assert words in text, words


def test_the_page_asks_for_nothing_and_lets_nothing_else_run(report: Report) -> None:
    page = Page(report_page(report))
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "form", "base"), tag
        assert not any(name.startswith("on") or name in ("src", "style", "srcset") for name in attributes), (
            attributes
        )
        assert attributes.get("href", "#").startswith("#")
    scripts = page.all("script")
    assert [attributes.get("type") for attributes in scripts] == ["application/json", "application/json", None]
    (policy,) = (a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    allowed = re.findall(r"sha256-([\w+/=]+)", policy)
    code, style = page.texts["script"][-1], page.texts["style"][0]
    assert allowed == [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (code, style)]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_same_report_gives_the_same_bytes(report: Report, tmp_path: Path) -> None:
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert write_report(one, report) == write_report(two, report) == len(one.read_bytes())
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "two.html"]


def test_no_name_is_read_as_html(report: Report) -> None:
    hostile = replace(
        report,
        title=HOSTILE,
        headline=HOSTILE,
        facts=((HOSTILE, HOSTILE),),
        rules=(HOSTILE,),
        notes=(HOSTILE,),
        classes=(HOSTILE, "dog"),
        scores=(replace(report.scores[0], domain=HOSTILE, images=HOSTILE),),
        galleries=(Gallery(title=HOSTILE, words=HOSTILE, cases=(case(HOSTILE, HOSTILE),)),),
        compositions=(composition(HOSTILE),),
        compaction=(TextTable(HOSTILE, (HOSTILE,), ((HOSTILE,),), (HOSTILE,)),),
        curve=replace(
            report.curve,
            images=HOSTILE,
            points=(CurvePoint(step=1, loss=1.0, validation={HOSTILE: 0.5, "b": 0.5}, mean=0.5),),
        ),
        config={f"data.{HOSTILE}": HOSTILE, HOSTILE: HOSTILE},
        commands=((HOSTILE, HOSTILE),),
        environment={HOSTILE: HOSTILE},
    )
    page = Page(report_page(hostile))
    assert page.all("img") == []
    assert len(page.all("script")) == 3
    assert page.text.count(HOSTILE) >= 18
    (gallery,) = json.loads(page.texts["script"][1])
    assert gallery["title"] == gallery["cases"][0]["title"] == gallery["cases"][0]["truth"] == HOSTILE


@pytest.mark.parametrize("name", ["config.json", "missing/report.html"])
def test_a_bad_place_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=r"expected a name that ends in \.html or \.htm, in a folder"):
        check_place(tmp_path / name)
    check_place(tmp_path / "report.html")


def test_a_method_without_relations_says_so_in_a_line_each(report: Report) -> None:
    plain = replace(report, compositions=(), compaction=(), curve=None, galleries=(), environment={})
    text = Page(report_page(plain)).text
    assert "only PARSE's classes are compositions" in text
    assert "Only a model of PARSE can be compacted." in text
    assert "No images are shown." in text
    assert "words 0" not in text


def test_many_classes_are_listed_by_their_most_frequent_confusions(report: Report) -> None:
    count = 50
    confusion = np.eye(count, dtype=np.int64) * 10
    confusion[3, 7], confusion[7, 3], confusion[1, 2] = 5, 2, 9
    names = tuple(f"class {n}" for n in range(count))
    scores = (replace(report.scores[0], confusion=confusion, correct=500, total=516),)
    page = Page(report_page(replace(report, classes=names, scores=scores)))
    assert "The 3 most frequent of 3 confusions, of 50 classes." in page.text
    assert page.text.index("9 of 19 (47.4%)") < page.text.index("5 of 15 (33.3%)") < page.text.index("2 of 12")
    assert len(page.all("td")) < 40


def test_curves_run_from_left_to_right_and_up_with_accuracy(report: Report) -> None:
    lines = [a["points"] for a in Page(report_page(report)).all("polyline")]
    assert len(lines) == 4  # photo, paint, their mean, the loss
    photo = [tuple(map(float, point.split(","))) for point in str(lines[0]).split()]
    assert len(photo) == 2
    assert photo[0][0] < photo[1][0]
    assert photo[0][1] > photo[1][1]  # y grows downwards
    assert len(str(lines[3]).split()) == 3
