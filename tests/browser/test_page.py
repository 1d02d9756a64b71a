"""The service's page in a real browser: an image is dropped, chosen or pasted, and its answer explored."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parse_dg.deploy.predictor import load
from tests.serve.conftest import Running, encoded, picture, png, running

pytest.importorskip("playwright.sync_api", reason="these tests need playwright: pip install 'parse-dg[dev]'")


@pytest.fixture(scope="module")
def parse(parse_run: Path) -> Iterator[Running]:
    with running(parse_run, max_bytes=2**20) as service:
        yield service


@pytest.fixture(scope="module")
def erm(erm_run: Path) -> Iterator[Running]:
    with running(erm_run) as service:
        yield service


def photo(seed: int = 0) -> bytes:
    """An image of large soft spots."""
    return encoded(picture(seed, (6, 5)).resize((300, 200)))


def visit(page: Any, service: Running) -> None:
    page.goto(f"http://127.0.0.1:{service.port}/")
    page.get_by_text(f"method {service.predictor.model.spec.algorithm.name}").wait_for()


def give(page: Any, kind: str, *files: tuple[str, bytes]) -> None:
    """A drop or a paste of real files, as the browser would make it."""
    held = json.dumps([[name, base64.b64encode(data).decode()] for name, data in files])
    page.evaluate(
        """([kind, held]) => {
          const files = new DataTransfer();
          for (const [name, data] of JSON.parse(held)) {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            files.items.add(new File([bytes], name, { type: "image/png" }));
          }
          const target = document.getElementById("drop");
          const how = { bubbles: true, cancelable: true };
          if (kind === "paste") {
            target.dispatchEvent(new ClipboardEvent("paste", { clipboardData: files, ...how }));
          } else {
            for (const step of ["dragenter", "dragover", "drop"]) {
              target.dispatchEvent(new DragEvent(step, { dataTransfer: files, ...how }));
            }
          }
        }""",
        [kind, held],
    )


def drawing(page: Any) -> str:
    return str(page.locator(".pv-overlay").inner_html())


def predicted(service: Running, data: bytes) -> str:
    answer = service.client.post("/predict", files={"image": data}).json()
    return str(answer["predicted"])


def test_drop_an_image_and_hover_a_relation(page: Any, parse: Running) -> None:
    visit(page, parse)
    assert not page.locator("#answer").is_visible()
    give(page, "drop", ("spots.png", photo()))
    page.locator(".pv-image").wait_for()
    assert page.locator(".pv-title").inner_text() == "spots.png"
    assert page.locator(".pv-verdict").inner_text() == f"predicted {predicted(parse, photo())}"
    assert page.get_by_role("status").inner_text().startswith(f"spots.png: {predicted(parse, photo())}, ")
    before = drawing(page)
    page.locator(".pv-relation[data-index='0']").hover()
    first = drawing(page)
    page.locator(".pv-relation[data-index='3']").hover()
    assert len({before, first, drawing(page)}) == 3
    page.locator(".pv-primitive[data-primitive='2']").hover()
    painted = page.locator(".pv-heat").evaluate("(canvas) => canvas.toDataURL().length")
    page.locator("h1").hover()
    assert painted > page.locator(".pv-heat").evaluate("(canvas) => canvas.toDataURL().length")
    assert drawing(page) == before


def test_choose_paste_and_go_back(page: Any, parse: Running) -> None:
    visit(page, parse)
    page.set_input_files("#file", {"name": "one.png", "mimeType": "image/png", "buffer": photo(1)})
    page.get_by_role("heading", name="one.png").wait_for()
    assert not page.locator("#strip").is_visible()
    give(page, "paste", ("two.png", photo(2)))
    page.get_by_role("heading", name="two.png").wait_for()
    give(page, "drop", ("three.png", photo(3)), ("four.png", photo(4)))
    page.get_by_role("heading", name="four.png").wait_for()
    assert page.locator("#strip button").count() == 4
    page.locator("#strip button").nth(3).click()
    page.get_by_role("heading", name="one.png").wait_for()
    assert page.locator("#strip [aria-current]").get_attribute("title") == "one.png"


def test_another_class_beside_the_predicted_one(page: Any, parse: Running) -> None:
    visit(page, parse)
    give(page, "drop", ("a.png", photo(5)))
    page.locator("#other").wait_for()
    shown = page.locator("#other").input_value()
    names = page.locator("#other option").all_inner_texts()
    assert len(names) == len(parse.predictor.classes) - 1
    other = next(name for name in names if name != shown)
    page.locator("#other").select_option(other)
    page.get_by_role("heading", name=f"What speaks for {other}?").wait_for()
    assert page.locator("#other").input_value() == other


def test_a_primitive_is_named_by_clicking(page: Any, parse_copy: Path) -> None:
    with running(parse_copy) as service:
        visit(page, service)
        give(page, "drop", ("a.png", photo()), ("b.png", photo(1)))
        page.get_by_role("heading", name="b.png").wait_for()
        assert page.locator(".pv-primitive img.pv-face").count() == 16
        assert page.locator(".pv-relation[data-index='0'] img.pv-face").count() >= 1
        page.locator(".pv-primitive[data-primitive='3']").click()
        page.get_by_label("A name for p3").fill("red crest")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="primitive 3, red crest").wait_for()
        assert page.locator(".pv-caption").inner_text().startswith("p3 red crest")
        page.locator("#classes summary").click()
        assert page.locator("#cards .pv-card").count() == 8
        page.locator("#strip button").nth(1).click()
        page.get_by_role("heading", name="a.png").wait_for()
        assert page.locator(".pv-called").inner_text() == "red crest"
        page.locator(".pv-primitive[data-primitive='5']").click()
        page.get_by_label("A name for p5").fill("Red Crest")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("p3 and p5 would both be called").wait_for()
        assert all("400" in complaint for complaint in page.complaints)
        page.complaints.clear()
    assert load(parse_copy, "cpu").names == {3: "red crest"}


def test_what_goes_wrong_is_said_in_one_line(page: Any, parse: Running) -> None:
    visit(page, parse)
    give(page, "drop", ("<b>notes</b>.txt", b"no image"), ("good.png", photo()))
    page.get_by_role("heading", name="good.png").wait_for()
    alert = page.get_by_role("alert")
    assert alert.inner_text().startswith("<b>notes</b>.txt: the image cannot be read: it is no JPEG")
    assert "\n" not in alert.inner_text()
    give(page, "drop")
    page.get_by_text("that was no file: expected an image").wait_for()
    assert "notes" not in alert.inner_text()
    assert all("415" in complaint for complaint in page.complaints)
    page.complaints.clear()  # the browser says it, too
    give(page, "drop", ("long.png", bytes(2**20 + 1)))
    page.get_by_text("long.png: the file is too long: at most 1,048,576 bytes are taken").wait_for()


def test_a_model_of_another_method_shows_where_its_score_comes_from(page: Any, erm: Running) -> None:
    visit(page, erm)
    give(page, "drop", ("a.png", photo()))
    page.locator(".pv-image").wait_for()
    assert page.locator(".pv-verdict").inner_text() == f"predicted {predicted(erm, photo())}"
    assert page.locator(".pv-relation").count() == 0
    page.locator("#other").select_option(erm.predictor.classes[-1])
    heading = f"Where does the score of {erm.predictor.classes[-1]} come from?"
    page.get_by_text(heading).wait_for()
    painted = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(v => v)"
    assert page.locator(".pv-heat").evaluate(painted)


def test_a_service_that_is_gone_is_said(page: Any, erm_run: Path) -> None:
    with running(erm_run) as service:
        visit(page, service)
    give(page, "drop", ("a.png", png()))
    page.get_by_text("the service does not answer: is it still running?").wait_for()
    page.complaints.clear()


def test_by_keyboard_alone(page: Any, parse: Running) -> None:
    page.on("filechooser", lambda chooser: None)  # from the start: the browser needs time to learn of it
    visit(page, parse)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "file"
    with page.expect_file_chooser() as chosen:
        page.keyboard.press("Enter")
    chosen.value.set_files({"name": "keys.png", "mimeType": "image/png", "buffer": photo(6)})
    page.locator(".pv-relation[data-index='0']").focus()
    before = drawing(page)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.index") == "1"
    assert drawing(page) != before


@pytest.mark.parametrize(
    "page_options",
    [
        {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True, "color_scheme": "dark"},
        {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    ],
    ids=["phone, dark", "desktop, light"],
)
def test_it_fits_and_follows_the_system(page: Any, parse: Running, page_options: dict[str, Any]) -> None:
    visit(page, parse)
    give(page, "drop", ("a" * 80 + ".png", photo()), ("b.png", photo(1)))
    page.get_by_role("heading", name="b.png").wait_for()
    page.locator("#strip button").nth(1).click()
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] <= wide[1]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in ground.strip("rgb()").split(",")) > 3 * 128
    assert light == (page_options["color_scheme"] == "light")
    if page_options.get("has_touch"):
        before = drawing(page)
        page.locator(".pv-relation[data-index='2']").tap()
        assert drawing(page) != before


def test_nothing_of_a_file_name_becomes_html(page: Any, parse: Running) -> None:
    visit(page, parse)
    name = "<img src=x onerror=document.title='gone'>.png"
    give(page, "drop", (name, photo()), (name, photo(1)))
    page.locator("#strip button").nth(1).wait_for()
    assert page.title() == "parse-dg"
    assert page.locator(".pv-title").inner_text() == name
