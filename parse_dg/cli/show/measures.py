"""The measures of a run as tables to read: every column says what it is, every table what would be chance."""

from collections.abc import Callable, Iterable, Sequence

from parse_dg.explain.measures.annotated_parts import FOLLOWS, AnnotatedParts
from parse_dg.explain.measures.collapse import OF_MAXIMUM, PRESENT
from parse_dg.explain.measures.localisation import WITHIN
from parse_dg.explain.measures.measure import RunMeasures
from parse_dg.explain.measures.structure_use import FIRST
from parse_dg.tables.text_table import TextTable, csv_table
from parse_dg.wording import percent, plural

UNKNOWN = "–"


def measure_tables(found: RunMeasures) -> tuple[TextTable, ...]:
    """Structure use, what was selected, collapse, evidence, consistency, and of parts what is known."""
    tables: tuple[TextTable, ...]
    tables = (_structure(found), _selected(found), _collapse(found), _evidence(found), _consistency(found))
    if found.domains[0].localisation:
        tables = (*tables, _localisation(found), _followed_parts(found))
    return (*tables, *_annotated(found.annotated_parts, found)) if found.annotated_parts else tables


def measures_csv(found: RunMeasures) -> str:
    """A line a number: what was measured, where, and its value in full."""
    rows: list[tuple[str, str, str, object]] = []
    for each in found.domains:
        for what, data in each.to_dict().items():
            if isinstance(data, dict):
                rows += [(what, each.domain, *row) for row in _flat(data)]
    for pair in found.consistency:
        rows += [("consistency", " and ".join(pair.domains), *row) for row in _flat(pair.to_dict())]
    rows += [("selected", "", *row) for row in _flat(found.selected.to_dict())]
    if found.annotated_parts:
        for part in (found.annotated_parts.sources, *found.annotated_parts.domains):
            rows += [("annotated_parts", part.domain, *row) for row in _flat(part.to_dict())]
    kept = [row for row in rows if row[2].split(".")[-1] != "domain"]
    return csv_table(["measure", "where", "what", "value"], kept)


def _flat(data: dict[str, object], before: str = "") -> list[tuple[str, object]]:
    """Numbers by their path; those of a list of records by what each record is of, its first entry."""
    rows: list[tuple[str, object]] = []
    for name, value in data.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{name}.")
        elif isinstance(value, list):
            for record in (each for each in value if isinstance(each, dict)):
                (what, which), *others = record.items()
                rows += _flat(dict(others), f"{before}{'p' if what == 'primitive' else ''}{which}.")
        else:
            rows.append((before + name, "" if value is None else value))
    return rows


def _by_domain(
    found: RunMeasures, title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *notes: str
) -> TextTable:
    """A row for every domain, which says of which and how many images its numbers are."""
    cells = tuple(
        (each.domain, f"{each.role}: {each.images}", f"{each.structure.images:,}", *row)
        for each, row in zip(found.domains, rows, strict=True)
    )
    title = f"{title}, {found.target} held out"
    return TextTable(title, ("domain", "images", "number", *header), cells, notes, names=2)


def _structure(found: RunMeasures) -> TextTable:
    rows = []
    for each in found.domains:
        use = each.structure
        swapped = f"{percent(use.swapped)} ± {100 * use.swapped_deviation:.1f}"
        guide = _share(each.guide.accuracy if each.guide else None)
        rows.append((percent(use.whole), guide, percent(use.relations), percent(use.presence), swapped))
    return _by_domain(
        found,
        "What accuracy rests on",
        ("whole model", "guide", "relations alone", "presence alone", "geometry swapped"),
        rows,
        "accuracy. Guide: the linear classifier on the pooled features that is there in training alone "
        f"({UNKNOWN} where a model has none); what it has more than the whole model is lost by the head, not by "
        "the features.",
        "Relations alone: the terms of presence are set to zero in every class score; presence alone: those of all "
        "relations. The weights are the trained ones.",
        "Geometry swapped: each image has its own presence, and the centres and extents of another one of these "
        f"images, whatever its class; mean ± standard deviation over {use.swaps} random drawings.",
    )


def _selected(found: RunMeasures) -> TextTable:
    of = found.selected
    counts = (_number(of.relations, 1), _number(of.relations_at_start, 1))
    return TextTable(
        f"Relations that classes use, {found.target} held out",
        ("classes", "relations", "at the start", "selected after the start", f"weight of the first {FIRST}"),
        ((f"{of.classes:,}", *counts, _share(of.after_start), percent(of.first_five)),),
        (
            "relations: how many a class gives a weight above zero, presence among them, at the end and before the "
            "first step. Selected after the start: of all pairs of a class and a relation it uses, the share of "
            "those that it did not use before the first step.",
            f"Weight of the first {FIRST}: that of a class's {FIRST} strongest relations; all of a class sum to "
            "100%. Means over classes.",
        ),
        names=0,
    )


def _collapse(found: RunMeasures) -> TextTable:
    rows = []
    for of in (each.collapse for each in found.domains):
        chance = UNKNOWN if of.by_chance is None else f"{_number(of.wrong_above_right)} (0.50 ± {of.by_chance:.2f})"
        means = (_number(mean, 1) for mean in (of.all.present, of.all.coinciding, of.all.places))
        shares = map(_number, (of.all.collapse, of.right.collapse, of.wrong.collapse))
        rows.append((*means, *shares, f"{of.right.images:,} / {of.wrong.images:,}", chance))
    height, width = found.heat_map_cells
    return _by_domain(
        found,
        "Collapse: primitives that coincide",
        (
            *("present", "coincide", "places", "collapse", "of right", "of wrong", "right / wrong"),
            "wrong above right (chance)",
        ),
        rows,
        f"means over images. Present: primitives of presence {PRESENT:g} or more; two coincide if their centres "
        f"are at most {of.within:g} cells of the {height} × {width} heat map apart; places: what is left if those "
        "count once; collapse: (present - places) ÷ (present - 1), 0 none, 1 all at one place.",
        "Wrong above right: how often a wrong image has more collapse than a right one of its class; 0.50 if "
        "errors have nothing to do with collapse, ± its standard deviation if that is so.",
    )


def _evidence(found: RunMeasures) -> TextTable:
    rows = []
    for each in found.domains:
        of, score = each.evidence, _share(each.structure.on_evidence)
        rows.append((f"{of.present:,}", _share(of.on_evidence), _number(of.heat_at_centre), score))
    return _by_domain(
        found,
        "On its evidence: heat maps where the primitives are",
        ("present", "on its evidence", "heat at the centre", "of the score"),
        rows,
        f"present: primitives of presence {PRESENT:g} or more, counted over all images. On its evidence: the share "
        f"of them whose heat map has at least {OF_MAXIMUM:g} of its maximum at the primitive's centre; the mean of "
        "a wide map, or of one with two peaks, lies where nothing is. Heat at the centre: the mean of that value ÷ "
        "the maximum.",
        "Of the score: what the predicted classes' scores have from relations all of whose primitives, present or "
        "not, are on their evidence.",
    )


def _consistency(found: RunMeasures) -> TextTable:
    rows = []
    for each in found.consistency:
        one, other = (f"{name} (target)" if name == found.target else name for name in each.domains)
        agreement = (_beside(each.presence, each.presence_by_chance), _beside(each.place, each.place_by_chance))
        recognised = _beside(each.recognised, each.recognised_by_chance, _share)
        rows.append((f"{one} and {other}", str(each.classes), *agreement, recognised))
    return TextTable(
        f"Consistency of primitives between two domains, {found.target} held out",
        ("domains", "classes", "presence (chance)", "place (chance)", "recognised (chance)"),
        tuple(rows),
        (
            "of the images of the tables above. Presence, place: the cosine, from -1 to 1, between a primitive's "
            "class-by-class mean presence, or mean place, in the one domain and in the other, after the mean over "
            "all primitives is taken off; chance: between different primitives.",
            "Recognised: the share of primitives that are more like themselves than like any other. All are means "
            "over primitives weighted by their share in the class compositions.",
        ),
    )


def _localisation(found: RunMeasures) -> TextTable:
    def pixels(error: float | None) -> str:
        return _number(error if error is None else (found.image_size - 1) / 2 * error, 1)

    rows = []
    for of in (each.localisation for each in found.domains):
        assert of is not None
        error = f"{pixels(of.error)} ({pixels(of.error_by_chance)})"
        same = _beside(of.same_part, of.same_part_by_chance, _share)
        errors = (error, pixels(of.error_of_right), pixels(of.error_of_wrong))
        rows.append((f"{of.following} of {of.primitives}", *errors, same))
    return _by_domain(
        found,
        "Localisation: primitives on true parts",
        ("follow a part", "error in pixels (chance)", "of right", "of wrong", "same part (chance)"),
        rows,
        "a primitive follows a part if that part is the nearest in at least half of the images. The other columns "
        f"are of the {of.expected if of else 0} that follow one on the sources together. Error: the mean over them "
        "of the median distance to that part, also over right and wrong images alone; chance: to where it is in "
        "another image.",
        "Same part: the share of them that are nearest to the same part here as on the sources; chance: if this "
        "domain's parts were dealt to them at random.",
    )


def _followed_parts(found: RunMeasures) -> TextTable:
    of = [each.followed_parts for each in found.domains if each.followed_parts]
    names = (
        part.part if part.primitive is None else f"{part.part}, {_label(part.primitive, found)}"
        for part in of[0].parts
    )
    rows = [
        (
            *(percent(part.share) for part in each.parts),
            _beside(each.count, each.count_by_chance),
            _beside(each.all, each.all_by_chance, _share),
        )
        for each in of
    ]
    return _by_domain(
        found,
        "Parts followed at once",
        (*names, f"parts of {len(of[0].parts)} (chance)", "all (chance)"),
        rows,
        "every part has one primitive of its own, named above: the one that is near it most often on the sources. "
        "Below it, the share of the images in which that primitive is within "
        f"{WITHIN * found.image_size:g} pixels of the part.",
        "Parts: how many of them are followed so in an image, the mean; all: the share of the images in which all "
        "are; chance: with the parts of another image.",
    )


def _label(primitive: int, found: RunMeasures) -> str:
    return f"p{primitive} {found.names.get(f'p{primitive}', '')}".rstrip()


def _annotated(found: AnnotatedParts, run: RunMeasures) -> tuple[TextTable, TextTable]:
    """A row a primitive, and a row a part; a column a domain."""
    target = run.target
    near = f"within {100 * found.within:g}% of the diagonal of the bird's bounding box"
    columns = (found.sources, *found.domains)
    names = (f"{each.domain} (target)" if each.domain == target else each.domain for each in columns)
    headings = [f"{name}, {plural(each.images, 'image')}" for name, each in zip(names, columns, strict=True)]
    primitives = [
        (_label(row[0].primitive, run), row[0].part, *(_beside(each.share, each.by_chance, _share) for each in row))
        for row in zip(*(each.primitives for each in columns), strict=True)
    ]
    parts = []
    for row in zip(*(each.parts for each in columns), strict=True):
        nearest = (f"{_label(each.primitive, run)} {_beside(each.share, each.by_chance, _share)}" for each in row)
        known = (UNKNOWN if each.share is None else words for each, words in zip(row, nearest, strict=True))
        parts.append((row[0].part, *known))
    followed = (f"{each.followed} of {len(parts)} ({each.followed_by_chance})" for each in columns)
    return (
        TextTable(
            f"Primitives on annotated parts, {target} held out",
            ("primitive", "part", *headings),
            tuple(primitives),
            (
                f"part: the one that the primitive is near most often on the sources together. Near is {near}, in "
                "pixels of the original photograph.",
                "Below the domains: of the photographs in which the part is visible, the share in which the "
                "primitive is near it; in brackets what is chance, with the places of another image's primitives.",
                "`parse-dg name RUN --propose --parts FOLDER` proposes these parts as names of the primitives.",
            ),
            names=2,
        ),
        TextTable(
            f"Annotated parts and the primitives that are near them, {target} held out",
            ("part", *headings),
            (*parts, ("followed", *followed)),
            (
                "of every part, in every domain by itself: the primitive that is near it most often, "
                f"{near}, and in what share of the photographs in which the part is visible; in brackets the "
                "highest share that any primitive has by chance.",
                f"Followed: how many parts have a primitive near them in at least {100 * FOLLOWS:g}% of those "
                "photographs; in brackets by chance.",
            ),
        ),
    )


def _number(value: float | None, digits: int = 2) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)


def _beside(value: float | None, chance: float | None, written: Callable[[float | None], str] = _number) -> str:
    """A number, and in brackets what it would be by chance."""
    return UNKNOWN if value is None or chance is None else f"{written(value)} ({written(chance)})"
