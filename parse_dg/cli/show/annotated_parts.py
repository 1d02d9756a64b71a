"""Primitives and the annotated parts of photographs, as tables to read."""

from parse_dg.explain.measures.annotated_parts import FOLLOWS, AnnotatedParts, PartsOfDomain
from parse_dg.tables.text_table import TextTable
from parse_dg.wording import percent, plural

UNKNOWN = "–"


def annotated_tables(found: AnnotatedParts, target: str) -> tuple[TextTable, TextTable]:
    """A row a primitive, and a row a part; a column a domain."""
    near = f"within {100 * found.within:g}% of the diagonal of the bird's bounding box"
    columns = (found.sources, *found.domains)
    names = (f"{each.domain} (target)" if each.domain == target else each.domain for each in columns)
    counts = (plural(each.images, "image") for each in columns)
    headings = tuple(f"{name}, {count}" for name, count in zip(names, counts, strict=True))
    return _primitives(columns, headings, near, target), _parts(columns, headings, near, target)


def _primitives(columns: tuple[PartsOfDomain, ...], headings: tuple[str, ...], near: str, target: str) -> TextTable:
    rows = [
        (f"p{row[0].primitive}", row[0].part, *(_beside(each.share, each.by_chance) for each in row))
        for row in zip(*(each.primitives for each in columns), strict=True)
    ]
    return TextTable(
        f"Primitives on annotated parts, {target} held out",
        ("primitive", "part", *headings),
        tuple(rows),
        (
            "part: the one that the primitive is near most often on the sources together. Near is "
            f"{near}, in pixels of the original photograph.",
            "Below the domains: of the photographs in which the part is visible, the share in which the primitive "
            "is near it; in brackets what is chance, with the places of another image's primitives.",
        ),
        names=2,
    )


def _parts(columns: tuple[PartsOfDomain, ...], headings: tuple[str, ...], near: str, target: str) -> TextTable:
    rows = [
        (row[0].part, *(_beside(each.share, each.by_chance, f"p{each.primitive} ") for each in row))
        for row in zip(*(each.parts for each in columns), strict=True)
    ]
    followed = (f"{each.followed} of {len(rows)} ({each.followed_by_chance})" for each in columns)
    return TextTable(
        f"Annotated parts and the primitives that are near them, {target} held out",
        ("part", *headings),
        (*rows, ("followed", *followed)),
        (
            f"of every part, in every domain by itself: the primitive that is near it most often, {near}, and in "
            "what share of the photographs in which the part is visible; in brackets the highest share that any "
            "primitive has by chance.",
            f"Followed: how many parts have a primitive near them in at least {100 * FOLLOWS:g}% of those "
            "photographs; in brackets by chance.",
        ),
    )


def _beside(share: float | None, by_chance: float | None, before: str = "") -> str:
    if share is None or by_chance is None:
        return UNKNOWN
    return f"{before}{percent(share)} ({percent(by_chance)})"
