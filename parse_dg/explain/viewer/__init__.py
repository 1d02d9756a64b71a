"""The viewer of cases, for a page to take in: plain scripts and style sheets, with no other file and no network.

A page that has them calls `ParseViewer.mount(element, data)` with a case (`explain/viewer_data.py`), and may give
`ParseTheme.attach` a button that changes between light and dark.
"""

from importlib.resources import files

SCRIPTS = ("theme.js", "drawing.js", "viewer.js")
"""What the viewer consists of, in the order in which it is loaded."""
STYLES = ("viewer.css",)


def read(*names: str) -> str:
    """The text of some of the viewer's files, one after another."""
    folder = files(__name__)
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
