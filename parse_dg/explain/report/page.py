"""The report of a run as one HTML file: it needs no other file and no network, and asks for none."""

import base64
import hashlib
import json
from pathlib import Path

from parse_dg.explain import viewer
from parse_dg.explain.report.data import Report
from parse_dg.explain.report.html import Html, element, joined
from parse_dg.explain.report.sections import sections
from parse_dg.files import require_writable, write_file, writing

SCRIPTS = (*viewer.SCRIPTS, "report.js")
STYLES = (*viewer.STYLES, "report.css")


def check_place(path: Path) -> None:
    """Raise before any work is done if the page could not be written there."""
    require_writable(path, "the report", (".html", ".htm"))


def write_report(path: Path, report: Report) -> int:
    """Write the page, whole or not at all. Returns its bytes."""
    data = report_page(report).encode("utf-8", "backslashreplace")  # a name may hold half a character
    with writing(f"the report to {path}"):
        write_file(path, data)
    return len(data)


def report_page(report: Report) -> str:
    """The whole page."""
    script, style = viewer.read(*SCRIPTS), viewer.read(*STYLES)
    parts = sections(report)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script, style)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", report.title),
        element("style", Html(style)),
    )
    links = [element("a", title, href=f"#{name}") for name, title, _ in parts]
    body = element(
        "body",
        element("a", "Skip to the summary", href="#summary", class_="skip"),
        element(
            "header",
            element("h1", report.title),
            element("button", id="theme", type="button", hidden=True),
            element("nav", joined(links, " "), aria_label="Contents"),
        ),
        element("main", joined(_section(*part) for part in parts)),
        element("footer", element("p", "Written by parse-dg report.")),
        _data(report),
        element("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _section(name: str, title: str, content: Html) -> Html:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, content, id=name, aria_labelledby=f"{name}-title")


def _data(report: Report) -> Html:
    """The galleries as data that is never executed; no `<` in it can end its element."""
    galleries = [{"title": g.title, "words": g.words, "cases": g.cases} for g in report.galleries if g.cases]
    text = json.dumps(galleries, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return element("script", Html(text), type="application/json", id="galleries")


def _policy(script: str, style: str) -> str:
    """What a browser lets the page do: run this very script, use this very style, show images that are in it."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
