"""What was found on new labelled images, as tables in which every number says what it is of."""

from collections.abc import Iterator

from rich.console import Console

from parse_dg.cli.options import say
from parse_dg.cli.show.tables import print_rows
from parse_dg.runs.afterwards.new_data import Abstention, Evaluation, KeptImages
from parse_dg.training.measures import PredictionScores, Proportion
from parse_dg.wording import percent

SHOWN = 12
"""Up to how many classes the confusion matrix is printed; the picture and evaluation.json have it always."""


def print_evaluation(console: Console, found: Evaluation) -> None:
    """All of it: by domain, by class, the confusions, what abstaining does."""
    scores = found.scores
    images = f"the {scores.accuracy.images:,} images"
    rows = [_domain_row(each.name, each) for each in found.domains]
    if len(rows) > 1:
        rows.append(_domain_row("all of them", scores))
    header = ("domain", "right of", "accuracy", "95%", "balanced", "macro F1", "ECE")
    print_rows(console, header, rows, title=f"{found.algorithm} on {scores.of}")
    rows = [
        (each.name, _of(each.recall), percent(each.recall.fraction), _interval(each.recall),
         "none" if each.precision is None else percent(each.precision), percent(each.f1), each.taken_for or "")
        for each in scores.classes
    ]  # fmt: skip
    header = ("class", "right of", "recall", "95%", "precision", "F1", "else mostly")
    print_rows(console, header, rows, title=f"by class, on {images}")
    if len(found.model_classes) <= SHOWN:
        cells = [(each.name, *map(str, row)) for each, row in zip(scores.classes, scores.confusion, strict=True)]
        names = ("true class \\ predicted", *found.model_classes)
        print_rows(console, names, cells, title=f"confusions, on {images}")
    say(console, found.legend, *found.notes)
    if found.abstention:
        say(console, *_abstention(found.abstention))


def _domain_row(name: str, scores: PredictionScores) -> tuple[str, ...]:
    shares = (scores.accuracy.fraction, scores.balanced_accuracy, scores.macro_f1)
    accuracy, balanced, f1 = map(percent, shares)
    return name, _of(scores.accuracy), accuracy, _interval(scores.accuracy), balanced, f1, f"{scores.ece:.3f}"


def _of(found: Proportion) -> str:
    return f"{found.correct}/{found.images}"


def _interval(found: Proportion) -> str:
    return f"{100 * found.low:.1f} to {percent(found.high)}"


def _abstention(found: Abstention) -> Iterator[str]:
    wanted, validation = f"{100 * found.precision:g}%", found.validation
    if found.threshold is None:
        yield (
            f"abstaining: no confidence reaches {wanted} on {validation.of} ({validation.images:,}): "
            "ask for less, or train a better model"
        )
        return
    yield (
        f"abstaining below a confidence of {found.threshold:.4f}, found for {wanted} right on {validation.of}: "
        f"{_keeps(validation)}"
    )
    for each in found.new:
        yield f"  {each.of}: {_keeps(each)}"


def _keeps(found: KeptImages) -> str:
    kept = f"answers {found.kept:,} of {found.images:,} ({percent(found.kept / found.images)})"
    if found.correct is None:
        return f"{kept}"
    return f"{kept}, {percent(found.correct.fraction)} of them right ({_interval(found.correct)}, 95%)"
