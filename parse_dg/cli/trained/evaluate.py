"""`parse-dg evaluate`: how good a trained model is, on the domains of its benchmark or on new labelled images."""

import os
from argparse import Namespace
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, opened, print_json, say
from parse_dg.config import require
from parse_dg.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from parse_dg.runs.afterwards.new_data import Evaluation


def evaluate(options: Namespace, console: Console) -> None:
    """Score a run's model: on the target domain and the held-out images of the source domains, or with
    --data on labelled images that it has never seen.

    New images are a folder class/image or domain/class/image, a list, or a data set that was added. All is
    said of them: accuracy with Wilson's 95% interval, balanced accuracy, macro F1, confusions and calibration,
    for each class and each domain; as tables, as evaluation.json and as two pictures. --abstain 0.95 finds the
    confidence from which on 95% of the answers are right on the source validation images, never on the new
    ones, and says what it keeps of the new ones and how right it is there.

    For example:
      parse-dg evaluate runs/blueprints/parse/sketch/seed0
      parse-dg evaluate RUN --data photos/march --abstain 0.95
    """
    from parse_dg.cli.show.display import print_accuracies
    from parse_dg.runs.afterwards.opened import evaluate_run

    if options.data is not None:
        evaluate_folder(options, console)
        return
    for name in ("abstain", "out"):
        require(getattr(options, name) is None, f"--{name}", getattr(options, name), "with --data FOLDER")
    rows = evaluate_run(opened(options), options.domain)
    if options.format == "json":
        found = [{"domain": r.domain, "images": r.images, "accuracy": r.accuracy.to_dict()} for r in rows]
        print_json(console, found)
    else:
        print_accuracies(console, rows)


def evaluate_folder(options: Namespace, console: Console) -> None:
    """`parse-dg evaluate --data`."""
    from parse_dg.cli.show.display import progress_display
    from parse_dg.cli.show.evaluation import print_evaluation
    from parse_dg.files import attempting, make_folders, write_json
    from parse_dg.runs.afterwards.new_data import evaluate_new
    from parse_dg.runs.afterwards.opened import OpenedRun

    place = options.out or _beside(options.run) / "evaluated"
    above = next(each for each in (place, *place.absolute().parents) if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError(f"cannot write to {place}: choose another folder with --out")
    with progress_display() as progress:
        run = OpenedRun(options.run, model=options.model, device=options.device, progress=progress, store="never")
        found = evaluate_new(run, options.data, domain=options.domain, abstain=options.abstain)
    parts = (found.name, options.domain, options.model and options.model.stem)
    folder = options.out or place / "-".join(filter(None, parts))
    with attempting(f"write to {folder}", "choose another folder with --out"):
        make_folders(folder)
        write_json(folder / "evaluation.json", found.to_dict())
    drawn = _draw(found, folder)
    if options.format == "json":
        print_json(console, found.to_dict())
    else:
        print_evaluation(console, found)
        say(console, f"written to {folder}: evaluation.json{drawn}")


def _beside(run: "Path") -> "Path":
    return run if run.is_dir() else run.parent


def _draw(found: "Evaluation", folder: "Path") -> str:
    """Both pictures, where they can be drawn; what is to be said of them."""
    from parse_dg.explain.figures.evaluation import confusion_figure, reliability_figure

    try:
        confusion_figure(folder / "confusion.png", found.scores, found.model_classes)
        reliability_figure(folder / "reliability.png", found.scores)
    except InputError as error:
        return f"; no pictures: {error}"
    return ", confusion.png, reliability.png"


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "score a trained model on the domains of its benchmark, or on new labelled images"
    command = add_command(commands, "evaluate", evaluate, words)
    command.add_run("the run's folder; with --data a model file will do")
    command.add("--domain DOMAIN", "all images of this domain only")
    command.add("--data DATA", "new labelled images: a folder class/image or domain/class/image, a list, or a name")
    words = "with --data: answer only where the model is so sure that this fraction is right on source validation"
    command.add("--abstain P", words, type=float)
    command.add("--out FOLDER", "of evaluation.json and the pictures (default: RUN/evaluated/DATA)")
    command.add("--format", "of what is printed", choices=("text", "json"))
    command.add_model()
