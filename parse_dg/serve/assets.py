"""The files of the page, by the address each has: nothing else can be fetched, whatever an address says."""

from pathlib import Path
from typing import NamedTuple

from parse_dg.explain import viewer

PAGE = Path(__file__).parent / "page"
HTML, CSS, SCRIPT = (f"text/{kind}; charset=utf-8" for kind in ("html", "css", "javascript"))


class Asset(NamedTuple):
    """One file, in memory."""

    address: str
    kind: str
    data: bytes


def load_assets() -> list[Asset]:
    """All files of the page, read once."""
    return [
        Asset("/", HTML, (PAGE / "page.html").read_bytes()),
        Asset("/page.css", CSS, (PAGE / "page.css").read_bytes()),
        Asset("/page.js", SCRIPT, (PAGE / "page.js").read_bytes()),
        Asset("/icon.svg", "image/svg+xml", (PAGE / "icon.svg").read_bytes()),
        Asset("/viewer.css", CSS, viewer.read(*viewer.STYLES).encode()),
        Asset("/viewer.js", SCRIPT, viewer.read(*viewer.SCRIPTS).encode()),
    ]
