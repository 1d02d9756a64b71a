"""The sections of a report as HTML, each from its part of the data."""

from parse_dg.explain.report.classes import ClassSummary
from parse_dg.explain.report.curve import curve_figures
from parse_dg.explain.report.data import Report
from parse_dg.explain.report.html import Html, element, joined
from parse_dg.explain.report.tables import MATRIX_CLASSES, confusion_table, score_table, text_table
from parse_dg.model.predicate import FAMILIES
from parse_dg.wording import percent, plural

OPEN_CLASSES = 12
"""With more classes than this their compositions are folded."""
ONLY_PARSE = "This method has none: only PARSE's classes are compositions of relations between primitives."


def sections(report: Report) -> list[tuple[str, str, Html]]:
    """Every section: its name in addresses, its title, its content."""
    return [
        ("summary", "Summary", summary(report)),
        ("images", "Right and wrong, and why", images(report)),
        ("accuracy", "Accuracy by domain", accuracy(report)),
        ("classes", "What each class is made of", classes(report)),
        ("training", "Training", training(report)),
        ("compaction", "Compaction", compaction(report)),
        ("repeat", "How to repeat it", repeat(report)),
    ]


def summary(report: Report) -> Html:
    """The result, what it is of, the rules, and what a reader has to know of this page."""
    result = [element("p", percent(report.headline.accuracy), class_="big"), element("p", report.headline.words)]
    if report.rules:
        rules = element("ul", *(element("li", rule) for rule in report.rules))
        result.append(element("details", element("summary", "The rules it was scored by"), rules, open=True))
    rows = [element("div", element("dt", name), element("dd", value)) for name, value in report.facts]
    facts = element("dl", joined(rows), class_="facts")
    parts = [element("div", element("div", *result, class_="result"), facts, class_="summary")]
    if report.notes:
        notes = element("ul", *(element("li", note) for note in report.notes))
        parts.append(element("div", element("h3", "Worth knowing"), notes, class_="note"))
    return joined(parts)


def images(report: Report) -> Html:
    """A place for the gallery, which a script fills."""
    if not any(gallery.cases for gallery in report.galleries):
        return element("p", "No images are shown.", class_="quiet")
    hint = (
        "Choose an image. Point at a relation, tap it or reach it by keyboard, and it is drawn over the image; "
        "a primitive shows its heat map."
        if report.compositions
        else "Choose an image to see what the model says of it."
    )
    return joined(
        [
            element("p", hint, class_="quiet"),
            element("div", id="gallery"),
            element("noscript", element("p", "The images need JavaScript, which is off.")),
        ]
    )


def accuracy(report: Report) -> Html:
    """The accuracies, and for each domain what is taken for what."""
    parts = [score_table(report.scores)]
    sources = [score for score in report.scores if score.role == "source"]
    if len(sources) > 1:
        mean = sum(score.correct / score.total for score in sources) / len(sources)
        parts.append(element("p", f"Mean of the {len(sources)} source rows: {percent(mean)}."))
    kind = "Confusion matrix" if len(report.classes) <= MATRIX_CLASSES else "Confusions"
    for score in report.scores:
        if score.confusion is not None:
            heading = element("summary", f"{kind}: {score.domain}, {score.images}")
            parts.append(
                element("details", heading, confusion_table(score, report.classes), open=score.role == "result")
            )
    return joined(parts)


def classes(report: Report) -> Html:
    """A card a class: its strongest relations and their weights."""
    if not report.compositions:
        return element("p", ONLY_PARSE, class_="quiet")
    words = (
        "A class's score is a weighted sum of relations; the weights of a class add up to 1. A relation adds at "
        "most its weight, where it holds fully."
    )
    opened = len(report.compositions) <= OPEN_CLASSES
    cards = [_card(composition, opened) for composition in report.compositions]
    return joined([element("p", words, class_="quiet"), _key(), element("div", joined(cards), class_="cards")])


def training(report: Report) -> Html:
    """The curves."""
    if report.curve is None:
        return element("p", "The course of the training is not there.", class_="quiet")
    note = f"The upright line is step {report.curve.chosen:,}, whose weights are the model."
    return joined([curve_figures(report.curve), element("p", note, class_="quiet")])


def compaction(report: Report) -> Html:
    """What slicing away unused relations gives."""
    if not report.compaction:
        return element("p", "Only a model of PARSE can be compacted.", class_="quiet")
    return joined(text_table(table) for table in report.compaction)


def repeat(report: Report) -> Html:
    """Commands, configuration, environment."""
    parts: list[Html] = []
    for what, command in report.commands:
        block = element("pre", element("code", command), tabindex="0", role="region", aria_label=what)
        parts += [element("p", what), block]
    groups: dict[str, list[Html]] = {}
    for name, value in report.config.items():
        group, _, field = name.partition(".")
        row = element("tr", element("th", field or group, scope="row"), element("td", value, class_="text"))
        groups.setdefault(group if field else "other", []).append(row)
    parts.append(element("h3", "Configuration"))
    for group, rows in groups.items():
        parts.append(element("details", element("summary", group), element("table", *rows, class_="plain")))
    if report.environment:
        rows = [
            element("tr", element("th", name, scope="row"), element("td", value, class_="text"))
            for name, value in report.environment.items()
        ]
        parts += [element("h3", "Where it was trained"), element("table", *rows, class_="plain")]
    return joined(parts)


def _key() -> Html:
    """Which colour is which family."""
    items = [element("li", element("span", class_=f"dot pv-{name}"), name) for name in FAMILIES]
    return element("ul", *items, class_="key families", aria_label="Families of relations")


def _card(composition: ClassSummary, opened: bool) -> Html:
    terms, others = composition.terms, composition.relations - len(composition.terms)
    widest = terms[0].weight if terms else 1.0
    items = [
        element(
            "li",
            element("span", term.words, class_="said"),
            element("span", _weight(term.weight), class_="number"),
            _bar(term.weight / widest, term.family),
        )
        for term in terms
    ]
    if others:
        number = element("span", _weight(composition.rest), class_="number")
        items.append(element("li", f"and {others:,} more", number, class_="rest"))
    heading = element(
        "summary",
        element("strong", composition.name),
        " ",
        element("span", plural(composition.relations, "relation")),
    )
    body = [_shares(composition), element("ol", joined(items), class_="terms")]
    return element("details", heading, *body, class_="card", open=opened)


def _weight(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.2g}"


def _bar(share: float, family: str) -> Html:
    bar = element("rect", width=f"{100 * share:.2f}", height="4", class_="bar")
    return element(
        "svg", bar, viewBox="0 0 100 4", preserveAspectRatio="none", class_=f"pv-{family}", aria_hidden="true"
    )


def _shares(composition: ClassSummary) -> Html:
    """How the weight is divided among the families."""
    parts, start, families = [], 0.0, composition.families
    for family in FAMILIES:
        width = 100 * families.get(family, 0.0)
        if width:
            parts.append(
                element("rect", x=f"{start:.2f}", width=f"{width:.2f}", height="6", class_=f"bar pv-{family}")
            )
        start += width
    words = ", ".join(f"{name} {percent(share)}" for name, share in families.items())
    stack = element(
        "svg", *parts, viewBox="0 0 100 6", preserveAspectRatio="none", class_="stack", aria_hidden="true"
    )
    return joined([stack, element("p", f"Of its weight: {words}", class_="quiet")])
