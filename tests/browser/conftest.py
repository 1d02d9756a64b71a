"""A real browser for the tests of pages: headless Chromium, in which every complaint and every request counts."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
"""What the browser may be called."""
QUICK = ("test_drop_an_image_and_hover_a_relation", "test_hovering_a_relation_draws_it_and_says_its_numbers")
"""What is tried of either page in `make test`; all the rest is slow."""
LOCAL = ("file:", "data:", "blob:", "http://127.0.0.1:")
"""Where a page may read from."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.name not in QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a page; they are skipped where there is none.

    Playwright keeps an event loop running in this thread: it must be gone before tests that run one of their own.
    """
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="these tests need playwright: pip install 'parse-dg[dev]'"
    )
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        pytest.skip(f"these tests need a browser, one of {', '.join(CHROMIUM)}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page_options() -> dict[str, Any]:
    """What the page is opened with, such as its size and colours; a test overrides this."""
    return {}


@pytest.fixture
def allowed() -> tuple[str, ...]:
    """What the addresses of a page's requests may begin with; a test overrides this."""
    return LOCAL


@pytest.fixture
def page(browser: Any, page_options: dict[str, Any], allowed: tuple[str, ...]) -> Iterator[Any]:
    """A new page. The test fails if the page says an error, raises one, or asks for anything elsewhere.

    A test that means to provoke complaints empties `page.complaints`.
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **page_options})
    opened = context.new_page()
    complaints: list[str] = []

    def hear(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"console {message.type}: {message.text}")

    def see(request: Any) -> None:
        if not request.url.startswith(allowed):
            complaints.append(f"request: {request.url}")

    opened.on("console", hear)
    opened.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    opened.on("request", see)
    opened.complaints = complaints
    yield opened
    context.close()
    assert complaints == []
