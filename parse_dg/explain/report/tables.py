"""The tables of a report: accuracy domain by domain, what is taken for what, and any table of text."""

import numpy as np
from jaxtyping import Int

from parse_dg.explain.report.data import DomainScore
from parse_dg.explain.report.html import Html, element, joined
from parse_dg.tables.text_table import TextTable
from parse_dg.wording import percent, plural

MATRIX_CLASSES = 30
"""With more classes than this a matrix is not readable: the most frequent confusions are listed instead."""
CONFUSIONS = 40
"""How many of them."""
LEVELS = 10
"""Of the shading."""


def score_table(scores: tuple[DomainScore, ...]) -> Html:
    """A row a domain."""
    rows = [
        element(
            "tr",
            element("th", each.domain, *_tag(each), scope="row"),
            element("td", each.images, class_="text"),
            element("td", percent(each.correct / each.total)),
            element("td", f"{each.correct:,} of {each.total:,}"),
        )
        for each in scores
    ]
    head = element(
        "tr",
        element("th", "domain", scope="col"),
        element("th", "images", scope="col", class_="text"),
        element("th", "accuracy", scope="col"),
        element("th", "correct", scope="col"),
    )
    table = element("table", element("thead", head), element("tbody", joined(rows)))
    return scrolling(table, "Accuracy by domain")


def confusion_table(score: DomainScore, classes: tuple[str, ...]) -> Html:
    """What the images of one domain are taken for: a matrix, or for many classes a list."""
    assert score.confusion is not None
    of = f"{score.domain} ({score.images})"
    if len(classes) > MATRIX_CLASSES:
        return scrolling(_confusions(score.confusion, classes), f"The most frequent confusions on {of}")
    return scrolling(_matrix(score.confusion, classes), f"What is taken for what on {of}")


def text_table(table: TextTable) -> Html:
    """Any table of text, with its notes."""
    rows = [
        element(
            "tr",
            *(
                element("th", cell, scope="row") if column < table.names else element("td", cell)
                for column, cell in enumerate(row)
            ),
        )
        for row in table.rows
    ]
    head = element("tr", *(element("th", cell, scope="col") for cell in table.header))
    whole = element("table", element("thead", head), element("tbody", joined(rows)))
    notes = joined(element("p", note, class_="quiet") for note in table.notes)
    return joined([element("h3", table.title), scrolling(whole, table.title), notes])


def scrolling(table: Html, label: str) -> Html:
    """What may be wider than the page scrolls by itself, also by keyboard."""
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def _tag(score: DomainScore) -> list[Html]:
    return [element("span", "the result", class_="tag")] if score.role == "result" else []


def _matrix(confusion: Int[np.ndarray, "C C"], classes: tuple[str, ...]) -> Html:
    caption = "Rows: the true class. Columns: what was predicted. Shaded by the share of the row."
    heads = [element("th", element("span", name), scope="col", class_="turned") for name in classes]
    corner = element("td", "true ↓  predicted →", class_="corner")
    last = element("th", element("span", "accuracy"), scope="col", class_="turned")
    rows = [
        element(
            "tr",
            element("th", name, scope="row"),
            *(_cell(int(count), int(row.sum()), c == number) for c, count in enumerate(row)),
            element("td", percent(row[number] / row.sum()) if row.sum() else "no image", class_="share"),
        )
        for number, (name, row) in enumerate(zip(classes, confusion, strict=True))
    ]
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", corner, *heads, last)),
        element("tbody", joined(rows)),
        class_="matrix",
    )


def _cell(count: int, total: int, right: bool) -> Html:
    level = -(-LEVELS * count // total) if total else 0  # any image at all is seen
    return element("td", f"{count:,}", class_=f"{'right' if right else 'wrong'} level{level}")


def _confusions(confusion: Int[np.ndarray, "C C"], classes: tuple[str, ...]) -> Html:
    off = confusion.copy()
    np.fill_diagonal(off, 0)
    order = np.argsort(-off, axis=None, kind="stable")[:CONFUSIONS]
    rows = []
    for true, predicted in zip(*np.unravel_index(order, off.shape), strict=True):
        count, total = int(off[true, predicted]), int(confusion[true].sum())
        if count:
            share = f"{count:,} of {total:,} ({percent(count / total)})"
            names = (element("th", classes[true], scope="row"), element("td", classes[predicted], class_="text"))
            rows.append(element("tr", *names, element("td", share)))
    pairs = int((off > 0).sum())
    caption = (
        f"The {min(CONFUSIONS, pairs)} most frequent of {plural(pairs, 'confusion')}, of {len(classes)} classes."
    )
    head = [element("th", name, scope="col") for name in ("true class", "taken for", "images of the true class")]
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", joined(rows)),
    )
