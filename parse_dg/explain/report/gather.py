"""The report of a finished run: everything it says, gathered from the run's folder, its model and its benchmark.

Where the benchmark is not on this machine, the report is made of what the folder holds, and says what it lacks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from parse_dg.config import as_typed, require, to_dict
from parse_dg.deploy.compaction import Compaction, compact
from parse_dg.deploy.cost import count_parameters
from parse_dg.deploy.model_file import Model
from parse_dg.errors import InputError
from parse_dg.explain.classes import ClassCard, class_cards, describe_classes
from parse_dg.explain.faces import PrimitiveFaces, faces_of
from parse_dg.explain.report.curve import training_curve
from parse_dg.explain.report.gallery import SubsetPredictions, galleries
from parse_dg.explain.report.page import DomainScore, Gallery, Report, Role
from parse_dg.plugins import as_options, find_needs
from parse_dg.runs.afterwards.compact import DomainComparison, compare
from parse_dg.runs.afterwards.opened import OpenedRun, applications_at_start, scored_parts
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_environment, read_split
from parse_dg.runs.result import RunResult
from parse_dg.tables.missing import train_command
from parse_dg.tables.records import flatten
from parse_dg.tables.text_table import TextTable
from parse_dg.training.accuracy import Accuracy, predict
from parse_dg.wording import percent, plural

IMAGES = 12
"""How many images of a kind are shown, unless more or fewer are asked for."""
TERMS = 8
"""How many relations of a class are named."""


class ImageFindings(NamedTuple):
    """What was found by looking at images; nothing where there are none."""

    scores: tuple[DomainScore, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    compared: tuple[DomainComparison, ...] = ()
    """The full and the compact model on the same images."""
    cards: tuple[ClassCard, ...] = ()
    faces: PrimitiveFaces | None = None


def gather_report(run: OpenedRun, *, images: int = IMAGES) -> Report:
    """Everything that is said of a run; `images` of each kind are shown."""
    require(images >= 0, "--images", images, "0 or more")
    config, result, model = run.config, run.result, run.model
    small = compact(model) if model.explains else None
    at_start = applications_at_start(config, model) if small else None
    notes: list[str] = []
    seen, fits, curve, environment = ImageFindings(), False, None, None
    with _noting(notes, "images, and what is found by looking at them"):
        run.require_fit()
        fits = True
    if fits:
        seen = _look(run, small[0] if small else None, images)
        if small and (faces := faces_of(run)):
            seen = seen._replace(cards=class_cards(model, faces), faces=faces)
        if not run.split.validation:
            notes.append("Left out: images of the source domains, since all of them train and none is held out.")
    if run.model_file is None:
        notes += _disagreement(result, seen.scores)
    else:
        notes.append(f"The result is of the run's own weights; all that follows it is of {run.model_file.name}.")
    with _noting(notes, "the course of the training"):
        curve = training_curve(run)
    with _noting(notes, "where it was trained"):
        environment = read_environment(run.path)
        if environment is None:
            raise InputError(f"{run.path / 'environment.json'} is not there")
    where = environment.to_dict() if environment else {}
    data, held_out = Path(config.data.benchmark).name, config.data.target or "no domain"
    return Report(
        title=f"{config.method} on {data}, {held_out} held out, seed {config.seed}",
        accuracy=result.target.accuracy if result.target else result.validation_mean_accuracy,
        headline=_headline(result),
        facts=tuple(_facts(run)),
        rules=result.protocol.rules,
        notes=tuple(notes),
        classes=run.classes,
        scores=seen.scores or tuple(_recorded(result)),
        galleries=seen.galleries,
        compositions=describe_classes(model, TERMS) if small else (),
        cards=seen.cards,
        faces=seen.faces,
        names=model.names,
        compaction=(_compaction(small[1], model, at_start, seen.compared),) if small else (),
        curve=curve,
        config={name: as_typed(value) for name, value in flatten(config).items()},
        commands=tuple(_commands(config)),
        environment={name: str(value) for name, value in where.items() if value is not None},
    )


def _headline(result: RunResult) -> str:
    """What the large number is."""
    if target := result.target:
        found = f"accuracy on {target.domain}, the target: {target.correct:,} of {target.images:,} images"
        return f"{found} ({target.part}). This number is the result of the run."
    mean = "mean over " if len(result.validation) > 1 else ""
    images = f"{mean}{result.validation_part} of {', '.join(result.validation)}"
    return f"validation accuracy: {images}. All domains trained, so that no number is of an unseen one."


def _look(run: OpenedRun, small: Model | None, images: int) -> ImageFindings:
    """The model, and its compact form, on every image that a run is scored or validated on: a subset at a time."""
    split, predictor = run.split, run.predictor
    parts = scored_parts(run.config, split)
    models = [predictor.model.algorithm, *([small.algorithm.to(predictor.device)] if small else [])]
    total = len(models) * sum(len(subset.indices) for subset, _ in parts)
    done = 0

    def count(seen: int) -> None:
        nonlocal done
        done += seen
        run.progress("looking at images", done, total)

    scores, compared, looked = [], [], {}
    for subset, words in parts:
        first, *second = (predict(model, subset, predictor.device, count) for model in models)
        found = looked[id(subset)] = SubsetPredictions.of(subset, first)
        compared += [compare(words.partition(": ")[0], first, each) for each in second]
        confusion = found.confusion(len(predictor.classes))
        which, _, part = words.partition(": ")
        role: Role = "result" if subset is split.target else "target" if which == "target" else "source"
        right = int(confusion.trace())
        scores.append(DomainScore(subset.domain.name, part, role, right, len(found.labels), confusion))
    held_out = [looked[id(subset)] for subset in split.validation]
    target = [looked[id(split.target)]] if split.target else []
    shown = tuple(galleries(predictor, target, held_out, images, run.progress))
    return ImageFindings(tuple(scores), shown, tuple(compared))


def _disagreement(result: RunResult, scores: tuple[DomainScore, ...]) -> list[str]:
    """Said where the run's own weights give another result now than it recorded."""
    then = (result.target.correct, result.target.images) if result.target else (0, 0)
    return [
        f"The run recorded {then[0]:,} of {then[1]:,} images of its target as right, and now they are "
        f"{score.correct:,} of {score.total:,}. Another device may change a few, another version more."
        for score in scores
        if score.role == "result" and (score.correct, score.total) != then
    ]


def _facts(run: OpenedRun) -> Iterator[tuple[str, str]]:
    config, result, model = run.config, run.result, run.model
    yield "method", f"{config.method}: {config.algorithm.summary}"
    sources = [name for name in result.domains if name != config.data.target]
    if config.split.validation_domain in sources:
        sources.remove(config.split.validation_domain)
    split = read_split(run.path)
    count = f" ({plural(sum(split.training_images.values()), 'image')})" if split else ""
    yield "trained on", f"{', '.join(sources)}{count}"
    leaked = result.leakage.words if result.leakage.images else "no image of it was trained on"
    yield "target", f"{config.data.target}: {leaked}" if result.target else "none: all domains trained"
    yield "weights", f"of step {result.selected_step:,} of {result.steps:,}, by {result.selection}"
    if result.validation:
        mean = "mean over " if len(result.validation) > 1 else ""
        images = f"{mean}{result.validation_part} of {', '.join(result.validation)}, at that step"
        yield "validation", f"{percent(result.validation_mean_accuracy)}, {images}"
    split_seed = "" if config.trial == config.seed else f", split by seed {config.trial}"
    yield "seed", f"{config.seed}{split_seed}"
    start = f", from {Path(config.backbone.weights).name}" if config.backbone.weights else ", from a random start"
    yield "backbone", f"{config.backbone.name}{start}"
    spec = model.spec
    yield (
        "model",
        f"{plural(len(spec.classes), 'class')}, {count_parameters(model):,} parameters"
        f"{' (compact)' if model.compact else ''}, images of {spec.image_size} × {spec.image_size} pixels",
    )
    yield "data", f"{Path(result.benchmark.name).name}, fingerprint {result.benchmark.fingerprint[:16]}"


def _recorded(result: RunResult) -> Iterator[DomainScore]:
    """The accuracies that the run wrote down."""
    recorded: list[tuple[str, str, Role, Accuracy]]
    target = result.target
    recorded = [(target.domain, target.part, "result", target)] if target else []
    recorded += [(name, result.validation_part, "source", value) for name, value in result.validation.items()]
    for domain, part, role, value in recorded:
        yield DomainScore(domain, f"{part}, as recorded by the run", role, value.correct, value.images)


def _compaction(
    found: Compaction, model: Model, at_start: int | None, compared: tuple[DomainComparison, ...]
) -> TextTable:
    """What dropping the relations that no class uses gives, and whether it changes anything."""
    counts = {
        "predicate applications": (found.applications_before, found.applications_after),
        "parameters of Λ (classes × applications)": (found.parameters_before, found.parameters_after),
        "parameters of the whole model": (found.model_parameters_before, found.model_parameters_after),
    }
    rows = [(name, f"{before:,}", f"{after:,}") for name, (before, after) in counts.items()]
    rows.append(("GFLOPs for one image", f"{found.cost_before.gflops:.4f}", f"{found.cost_after.gflops:.4f}"))
    notes = [f"{percent(found.reduction)} of Λ's parameters belong to relations that no class uses."]
    if model.compact:
        notes = ["The model of this report is compact already."]
    if at_start is not None:
        notes.append(f"In use at the start, before training: {plural(at_start, 'application')}.")
    if compared:
        images, same = (
            sum(each.images for each in compared),
            sum(each.same_prediction for each in compared),
        )
        largest = max(each.largest_logit_difference for each in compared)
        notes.append(
            f"On the {images:,} images scored above, both models predict the same class on {same:,}; the largest "
            f"difference of a logit is {largest:.2g}."
        )
    notes.append("The command parse-dg compact writes the small model, after comparing both on every image.")
    return TextTable("Threshold 0: without loss", ("", "full", "compact"), tuple(rows), tuple(notes))


def _commands(config: RunConfig) -> Iterator[tuple[str, str]]:
    plugins = "".join(f"{word} " for word in as_options(find_needs(to_dict(config))))
    yield "The same run again, typed in its folder:", f"parse-dg train {plugins}--config config.json --out repeated"
    try:
        yield "The same from nothing but options:", train_command(config, Path("repeated"))
    except InputError:
        return


@contextmanager
def _noting(notes: list[str], what: str) -> Iterator[None]:
    """Within, what cannot be read is left out, and a note says so."""
    try:
        yield
    except InputError as error:
        notes.append(f"Left out: {what}. {error}.")
