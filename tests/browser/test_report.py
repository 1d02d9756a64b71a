"""The report in a real browser: relations are drawn, heat maps appear, by mouse, by keyboard and by touch."""

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.explain.explanation import Application
from parse_dg.explain.report.gather import gather_report
from parse_dg.explain.report.page import Gallery, Report, write_report
from parse_dg.explain.viewer_data import data_uri, drawing_of
from parse_dg.runs.afterwards.opened import open_run
from tests.conftest import FinishedRun

HOSTILE = "<img src=x onerror=alert(1)></script>"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SIDE = 11
"""Of the hand-made image, in pixels: -1 and 1 are the centres of pixels 0 and 10."""

OVERLAY = "() => document.querySelector('.pv-overlay').innerHTML"
HEAT = """() => {
  const canvas = document.querySelector('.pv-heat');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const alpha = data.filter((_, n) => n % 4 === 3);
  let largest = 0;
  alpha.forEach((value, n) => { if (value > alpha[largest]) largest = n; });
  return { width: canvas.width, total: alpha.reduce((a, b) => a + b, 0),
           x: largest % canvas.width, y: Math.floor(largest / canvas.width) };
}"""


@pytest.fixture(scope="module")
def gathered(parse_run: Path) -> Report:
    return gather_report(open_run(parse_run, device="cpu"), images=4)


@pytest.fixture(scope="module")
def address(gathered: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, gathered)
    return path.as_uri()


def relation(predicate: str, *primitives: int, words: str = "words") -> dict[str, Any]:
    numbers = {"weight": 0.5, "satisfaction": 0.4, "contribution": 0.2}
    return {
        "words": words,
        "name": predicate,
        "predicate": predicate,
        "primitives": list(primitives),
        **drawing_of(Application(predicate, words, predicate, primitives)),
        **numbers,
    }


def hand_made(relations: list[dict[str, Any]], name: str = "cat") -> dict[str, Any]:
    """Primitive 0 in the middle, 1 right of it, 2 below it, 3 in the upper left corner; the heat of 3 is there."""
    centres = [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (-1.0, -1.0)]
    heat = np.zeros((4, 3, 3), np.uint8)
    heat[3, 0, 0] = heat[0, 1, 1] = heat[1, 1, 2] = heat[2, 2, 1] = 255
    return {
        "title": name,
        "image": data_uri(np.full((SIDE, SIDE, 3), 200, np.uint8)),
        "seen": [0, 0, SIDE, SIDE],
        "truth": None,
        "predicted": name,
        "top": [{"name": name, "probability": 1.0, "score": 0.2}],
        "explanations": {name: {"score": 0.2, "relations": relations, "rest": {"count": 0, "contribution": 0.0}}},
        "places": [
            {"primitive": k, "x": x, "y": y, "width": 0.2, "height": 0.1, "presence": 0.9}
            for k, (x, y) in enumerate(centres)
        ],
        "heatmaps": {"shape": [4, 3, 3], "values": base64.b64encode(heat.tobytes()).decode()},
    }


def open_case(page: Any, gathered: Report, folder: Path, case: dict[str, Any]) -> None:
    path = folder / "report.html"
    write_report(path, replace(gathered, galleries=(Gallery(title="one", words="", cases=(case,)),)))
    page.goto(path.as_uri())


def place(pixel: float) -> float:
    """Where the centre of a pixel is in the drawing, which is 1000 wide."""
    return (pixel + 0.5) / SIDE * 1000


def tab_to(page: Any, selector: str) -> None:
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
    raise AssertionError(f"the Tab key never reaches {selector}")


# --- by mouse -------------------------------------------------------------------------------------


def test_hovering_a_relation_draws_it_and_says_its_numbers(page: Any, address: str) -> None:
    page.goto(address)
    at_rest = page.evaluate(OVERLAY)
    buttons = page.locator(".pv-relation")
    assert buttons.count() == 12
    drawn = set()
    for index in (0, 5, 11):
        buttons.nth(index).hover()
        drawn.add(page.evaluate(OVERLAY))
        words = buttons.nth(index).locator(".pv-said").inner_text()
        caption = page.locator(".pv-caption").inner_text()
        assert words in caption
        assert re.search(r"weight 0\.\d{3,} × satisfaction [01]\.\d\d = contribution 0\.\d{3,}", caption)
    assert len(drawn | {at_rest}) == 4
    page.locator("h1").hover()
    assert page.evaluate(OVERLAY) == at_rest


def test_hovering_a_primitive_shows_its_heat_map(page: Any, address: str) -> None:
    page.goto(address)
    assert page.evaluate(HEAT)["total"] == 0
    found = []
    for primitive in (0, 7):
        page.locator(f".pv-primitive[data-primitive='{primitive}']").hover()
        found.append(page.evaluate(HEAT))
        assert page.locator(".pv-overlay circle.pv-extent").count() == 1
        assert page.locator(".pv-overlay .pv-number-text").text_content() == str(primitive)
    assert all(each["total"] > 0 for each in found)
    assert found[0] != found[1]
    page.locator("h1").hover()
    assert page.evaluate(HEAT)["total"] == 0


def test_another_class_can_be_explained(page: Any, address: str) -> None:
    page.goto(address)
    asked = page.locator("button.pv-class")
    assert asked.count() == 2
    before = page.locator(".pv-why").inner_text()
    other = page.locator("button.pv-class[aria-pressed=false]")
    name = other.get_attribute("data-class")
    other.click()
    after = page.locator(".pv-why").inner_text()
    assert f"What speaks for {name}?" in after
    assert after != before
    assert page.locator(f"button.pv-class[data-class='{name}']").get_attribute("aria-pressed") == "true"


def test_every_image_of_every_kind_can_be_opened(page: Any, address: str, gathered: Report) -> None:
    page.goto(address)
    for gallery, kind in zip(gathered.galleries, page.locator(".kind").all(), strict=True):
        kind.click()
        thumbs = page.locator(".thumb")
        assert thumbs.count() == len(gallery.cases)
        for case, thumb in zip(gallery.cases, thumbs.all(), strict=True):
            thumb.click()
            assert page.locator(".pv-title").inner_text() == case["title"]
            assert page.locator(".pv-image").get_attribute("src") == case["image"]
            assert page.evaluate("() => document.querySelector('.pv-image').decode().then(() => true)")


def test_a_clicked_relation_stays_until_it_is_clicked_again(page: Any, address: str) -> None:
    page.goto(address)
    at_rest = page.evaluate(OVERLAY)
    page.locator(".pv-relation").nth(4).click()
    drawn = page.evaluate(OVERLAY)
    page.locator("h1").hover()
    assert page.evaluate(OVERLAY) == drawn != at_rest
    page.locator(".pv-relation").nth(4).click()
    page.locator("h1").hover()
    assert page.evaluate(OVERLAY) == at_rest


# --- by keyboard and touch ------------------------------------------------------------------------


def test_everything_can_be_done_by_keyboard(page: Any, address: str) -> None:
    page.goto(address)
    at_rest = page.evaluate(OVERLAY)
    tab_to(page, ".thumb input")
    title = page.locator(".pv-title").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator(".pv-title").inner_text() != title
    page.keyboard.press("ArrowLeft")
    assert page.locator(".pv-title").inner_text() == title
    tab_to(page, ".pv-primitive")
    assert page.evaluate(HEAT)["total"] > 0
    tab_to(page, ".pv-relation")
    assert page.evaluate(HEAT)["total"] == 0
    first = page.evaluate(OVERLAY)
    page.keyboard.press("ArrowDown")
    second = page.evaluate(OVERLAY)
    assert page.evaluate("() => document.activeElement.dataset.index") == "1"
    page.keyboard.press("End")
    assert page.evaluate("() => document.activeElement.dataset.index") == "11"
    page.keyboard.press("Home")
    assert page.evaluate(OVERLAY) == first
    page.keyboard.press("Enter")
    assert page.evaluate(OVERLAY) == first
    page.keyboard.press("Escape")
    assert page.evaluate(OVERLAY) == at_rest
    assert len({at_rest, first, second}) == 3


def test_focus_is_seen_and_everything_has_a_name(page: Any, address: str) -> None:
    page.goto(address)
    tab_to(page, ".pv-relation")
    style = "() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.outlineWidth }"
    assert page.evaluate(style) == "solid3px"
    for selector in ("button", "img:not(.pv-face)", "nav", "[role=region]", "[role=group]", "[role=radiogroup]"):
        for found in page.locator(selector).all():
            if found.is_visible():
                name = found.get_attribute("aria-label") or found.get_attribute("alt") or found.inner_text()
                beside = found.locator("..").inner_text()  # a picture that adds nothing has no name of its own
                assert name.strip() or (selector == "img" and beside.strip()), selector
    tree = page.locator("body").aria_snapshot()
    assert "radiogroup" in tree
    assert 'button "primitive 0, presence' in tree


@pytest.mark.parametrize("page_options", [PHONE])
def test_on_a_phone_nothing_scrolls_sideways_and_a_tap_draws(page: Any, address: str) -> None:
    page.goto(address)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    at_rest = page.evaluate(OVERLAY)
    page.locator(".pv-relation").nth(3).tap()
    assert page.evaluate(OVERLAY) != at_rest
    page.locator(".pv-primitive").nth(3).tap()
    assert page.evaluate(HEAT)["total"] > 0
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true })")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    smallest = "s => Math.min(...[...document.querySelectorAll(s)].map((e) => e.getBoundingClientRect().height))"
    assert page.evaluate(smallest, ".pv-relation, .pv-primitive, .kind") >= 44


# --- light and dark -------------------------------------------------------------------------------

BRIGHTNESS = """() => {
  const colour = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number);
  return colour.reduce((a, b) => a + b, 0) / 765;
}"""


@pytest.mark.parametrize(("page_options", "dark"), [({"color_scheme": "dark"}, True), ({}, False)])
def test_colours_follow_the_system_until_the_reader_chooses(page: Any, address: str, dark: bool) -> None:
    page.goto(address)
    assert (page.evaluate(BRIGHTNESS) < 0.3) == dark
    button = page.locator("#theme")
    button.click()
    assert button.inner_text() == "Colours: light"
    assert page.evaluate(BRIGHTNESS) > 0.7
    button.click()
    assert page.evaluate(BRIGHTNESS) < 0.3
    page.reload()
    assert button.inner_text() == "Colours: dark"
    assert page.evaluate(BRIGHTNESS) < 0.3


# --- what is drawn, and where ---------------------------------------------------------------------


def test_drawings_lie_where_the_primitives_are(page: Any, gathered: Report, tmp_path: Path) -> None:
    open_case(page, gathered, tmp_path, hand_made([relation("has", 3), relation("above", 0, 2)]))
    page.locator(".pv-relation").nth(0).hover()
    ring = page.locator(".pv-overlay circle.pv-stroke")
    assert float(ring.get_attribute("cx")) == pytest.approx(place(0))
    assert float(ring.get_attribute("cy")) == pytest.approx(place(0))
    page.locator(".pv-relation").nth(1).hover()
    numbers = page.locator(".pv-number-text")
    assert numbers.all_text_contents() == ["0", "2"]
    (x0, y0), (x2, y2) = ((float(n.get_attribute("x")), float(n.get_attribute("y"))) for n in numbers.all())
    assert (x0, y0) == pytest.approx((place(5), place(5)))
    assert (x2, y2) == pytest.approx((place(5), place(8)))
    (tip, *_) = re.findall(r"[\d.]+,[\d.]+", page.locator(".pv-overlay .pv-head").get_attribute("d"))
    x, y = map(float, tip.split(","))
    assert x == pytest.approx(place(5))
    assert y0 < y < y2  # the arrow points down, at what is below


def test_every_predicate_is_drawn_as_what_it_is(page: Any, gathered: Report, tmp_path: Path) -> None:
    pairs = dict.fromkeys(("left", "h_align", "near", "contains"), (0, 1)) | {"above": (0, 2), "v_align": (0, 2)}
    others = {"has": (0,), "tri": (0, 1, 2), "turn": (1, 0, 2), "orient": (0, 1, 0, 2), "eqdist": (0, 1, 0, 2)}
    relations = [relation(name, *bound) for name, bound in (pairs | others).items()]
    own = {"predicate": "own", "marks": [["line", 1, 0], ["line", 0, 2], ["box", 2]]}
    relations.append(relation("near", 1, 0, 2) | own)
    open_case(page, gathered, tmp_path, hand_made(relations))
    seen = {}
    for index, each in enumerate(relations):
        page.locator(".pv-relation").nth(index).hover()
        drawn = page.locator(".pv-overlay")
        seen[each["predicate"]] = {
            "arrows": drawn.locator(".pv-head").count(),
            "dashed": drawn.locator(".pv-dashed").count(),
            "angle": " ".join(drawn.locator(".pv-measure").all_text_contents()),
            "caption": page.locator(".pv-caption").inner_text(),
            "discs": drawn.locator(".pv-number-disc").count(),
            "strokes": drawn.locator("path.pv-stroke").count(),
            "rings": drawn.locator("circle.pv-stroke").count(),
        }
        assert seen[each["predicate"]]["discs"] == len(set(each["primitives"]))
    arrows = {name: each["arrows"] for name, each in seen.items()}
    assert arrows == {
        **dict.fromkeys(("has", "h_align", "v_align", "near", "tri", "eqdist", "own"), 0),
        **{"above": 1, "left": 1, "contains": 1, "turn": 2, "orient": 2},
    }
    assert (seen["has"]["rings"], seen["has"]["strokes"]) == (1, 0)
    assert seen["h_align"]["dashed"] == seen["v_align"]["dashed"] == 1
    assert seen["tri"]["angle"] == seen["turn"]["angle"] == "90°"
    assert seen["own"]["strokes"] == 3
    assert "here 90°" in seen["orient"]["caption"]
    assert "here 1.00 times as long" in seen["eqdist"]["caption"]


def test_heat_lies_where_the_map_is_hot_with_corners_aligned(page: Any, gathered: Report, tmp_path: Path) -> None:
    open_case(page, gathered, tmp_path, hand_made([relation("has", 0)]))
    page.locator(".pv-primitive").nth(3).hover()
    corner = page.evaluate(HEAT)
    assert (corner["x"], corner["y"]) == (0, 0)
    page.locator(".pv-primitive").nth(0).hover()
    box = page.locator(".pv-overlay path.pv-extent").first.get_attribute("d")
    sides = [float(number) for number in re.findall(r"[\d.]+", box)]  # left, top, right, bottom, left
    assert sides == pytest.approx([place(4), place(4.5), place(6), place(5.5), place(4)])
    middle = page.evaluate(HEAT)
    assert middle["x"] == pytest.approx(middle["width"] / 2, abs=2)
    assert middle["y"] == pytest.approx(middle["width"] / 2, abs=2)
    page.locator(".pv-primitive").nth(1).hover()
    right = page.evaluate(HEAT)
    # The last cell is centred on the last pixel: from that centre on the heat is full.
    assert right["x"] == pytest.approx((SIDE - 0.5) / SIDE * right["width"], abs=2)


def test_of_many_primitives_each_has_its_own_map(page: Any, gathered: Report, tmp_path: Path) -> None:
    case = hand_made([relation("has", 800)])
    maps = np.frombuffer(base64.b64decode(case["heatmaps"]["values"]), np.uint8).reshape(4, 3, 3)[[1, 3]]
    case |= {
        "primitives_in_all": 900,
        "places": [case["places"][1], case["places"][3] | {"primitive": 800}],
        "heatmaps": {"shape": [2, 3, 3], "values": base64.b64encode(maps.tobytes()).decode()},
    }
    open_case(page, gathered, tmp_path, case)
    assert page.locator(".pv-parts .pv-label").inner_text().startswith("2 of 900 primitives: where each is")
    page.locator(".pv-primitive").nth(1).hover()
    corner = page.evaluate(HEAT)
    assert (corner["x"], corner["y"]) == (0, 0)
    assert "p800" in page.locator(".pv-caption .pv-said").inner_text()


# --- names, and methods without reasons -----------------------------------------------------------


@pytest.mark.parametrize("name", [HOSTILE, "__proto__", "constructor", "10"])
def test_names_are_text_whatever_they_hold(page: Any, gathered: Report, tmp_path: Path, name: str) -> None:
    case = hand_made([relation("near", 0, 1, words=HOSTILE)], name)
    other = {"name": "2", "probability": 0.0, "score": 0.1}
    case = {**case, "truth": "2", "top": [*case["top"], other]}
    case["explanations"]["2"] = case["explanations"][name]
    open_case(page, gathered, tmp_path, case)
    assert page.locator(".pv-title").inner_text() == name
    assert page.locator(".pv-verdict strong").first.inner_text() == name
    assert page.locator(".pv-heading strong").inner_text() == name
    assert page.locator(".pv-class").first.get_attribute("data-class") == name
    page.locator(".pv-relation").hover()
    assert HOSTILE in page.locator(".pv-caption").inner_text()
    assert page.locator("img[src=x]").count() == 0


def test_primitives_without_relations_are_shown_by_what_they_add(
    page: Any, finished_run: FinishedRun, tmp_path: Path
) -> None:
    path = tmp_path / "bare.html"
    write_report(path, gather_report(open_run(finished_run("no_relations"), device="cpu"), images=2))
    page.goto(path.as_uri())
    row = page.locator(".pv-relation").nth(3)
    assert page.locator(".pv-relation").count() == 16
    row.hover()
    assert page.locator(".pv-caption .pv-said").inner_text().startswith(row.locator(".pv-said").inner_text() + ",")
    assert page.locator(".pv-total dt").inner_text() == "logit, of which softmax is taken"


def test_a_method_without_reasons_shows_its_classes(page: Any, gathered: Report, tmp_path: Path) -> None:
    bare = hand_made([]) | {"explanations": {}, "places": [], "heatmaps": None}
    open_case(page, gathered, tmp_path, bare)
    assert "This method gives no reasons" in page.locator(".pv-why").inner_text()
    assert page.locator(".pv-relation, .pv-primitive, .pv-overlay, .pv-heat").count() == 0
