"""The demonstration: PARSE and its ablation on the embedded benchmark, compared, compacted and explained."""

import shlex
import statistics
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from shutil import which

import numpy as np
from jaxtyping import Int
from PIL import Image
from rich.console import Console

from parse_dg.cli.options import say
from parse_dg.cli.show.display import compact_with_display, print_compaction, run_with_display
from parse_dg.cli.show.tables import print_rows
from parse_dg.config import change
from parse_dg.data.blueprints.benchmark import PARTS
from parse_dg.data.framing import Picture
from parse_dg.data.loader import load_images
from parse_dg.data.splits import Subset, whole
from parse_dg.explain.explanation import Explanation, explain
from parse_dg.explain.figures.explanation import SHOWN_RELATIONS, explanation_figure, primitive_sheet
from parse_dg.explain.figures.page import require_matplotlib
from parse_dg.explain.measures.images import true_centres
from parse_dg.explain.measures.localisation import FOLLOWS, WITHIN, primitive_places
from parse_dg.files import whole_file
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.runs.config import RunConfig
from parse_dg.runs.recipes import build_config
from parse_dg.runs.result import RunResult
from parse_dg.training.accuracy import predict
from parse_dg.wording import percent

IMAGES_PER_DOMAIN = 2
EXPLAINED = "image.png"
"""The image of the target that is explained, as it is."""
METHODS = ("no_relations", "parse")
"""What learns its sources in the time; ERM needs more of it (docs/results.md)."""


def run_demo(folder: Path, console: Console, *, target: str, seed: int, steps: int) -> None:
    """Train No Relations and PARSE with `target` held out; compare, compact and draw."""
    require_matplotlib()
    started = time.monotonic()
    settings: dict[str, object] = {"data.target": target, "seed": seed, "training.steps": steps}
    configs = {name: change(build_config("blueprints", name), settings) for name in METHODS}
    console.print(
        "Blueprints: 8 creatures made of the same 6 parts, told apart by their layout alone, in 4 drawing styles.\n"
        "No Relations (a linear layer on where primitives are) and PARSE (relations between them) train alike on\n"
        f"the other styles; {target} is never seen before the end.\n"
    )
    results = {name: run_with_display(config, folder / name, console) for name, config in configs.items()}
    _print_comparison(console, results, configs["parse"])
    console.print("\n[bold]Compaction of PARSE")
    (outcome,) = compact_with_display([folder / "parse"], None, 0.0, "auto", console)
    print_compaction(console, outcome)
    _draw(OpenedRun(folder / "parse", model=outcome.path, device="cpu"), folder, console)
    say(console, f"\nall of it took {time.monotonic() - started:.0f} s and is in {folder}; go on with")
    program = "parse-dg" if which("parse-dg") else shlex.quote(sys.argv[0])
    run, image = (shlex.quote(str(folder / name)) for name in ("parse", EXPLAINED))
    say(
        console,
        *(f"  {program} {line}" for line in (f"report {run}", f"explain image {run} {image}", f"serve {run}")),
    )


def _print_comparison(console: Console, results: dict[str, RunResult], config: RunConfig) -> None:
    target = config.data.target
    header = ("method", "source validation accuracy", f"accuracy on {target} (never seen)")
    accuracies = ((name, each.validation_mean_accuracy, each.on_target.accuracy) for name, each in results.items())
    print_rows(console, header, [(name, percent(source), percent(unseen)) for name, source, unseen in accuracies])
    images = next(iter(results.values())).on_target.images
    console.print(
        f"source validation: mean over the three source domains, on the 20% of their images held out of training\n"
        f"accuracy on {target}: all {images:,} images, scored once with the weights of the best validation step\n"
        f"one seed ({config.seed}), {config.training.steps} steps each; docs/results.md has all domains, more seeds"
    )


def _draw(run: OpenedRun, folder: Path, console: Console) -> None:
    """The pictures, and what they show in words."""
    names = _name_primitives(run, console)
    images = {
        domain.name: load_images(whole(domain), _spread(len(domain.labels)))[0] for domain in run.benchmark.domains
    }
    primitive_sheet(run.model, images, folder / "primitives.png", names)
    _explain_one(run, folder / "explanation.png", console)
    say(console, *(f"pictures: {folder / name}" for name in ("primitives.png", "explanation.png")))


def _name_primitives(run: OpenedRun, console: Console) -> dict[int, str]:
    """Which part each primitive follows on the source domains, said and returned; most may follow none."""
    rows = []
    on_sources: dict[int, Counter[str]] = defaultdict(Counter)
    for domain in run.benchmark.domains:
        centres = true_centres(run, whole(domain))
        assert centres is not None
        places = primitive_places(run.model, whole(domain), centres, PARTS)
        following = [place for place in places if place.follows]
        held_out = domain.name == run.target
        name = f"{domain.name} (never seen)" if held_out else domain.name
        distance = f"{31.5 * statistics.median(p.distance for p in following):.1f} pixels" if following else ""
        rows.append((name, f"{len(following)} of {len(places)}", distance))
        for place in following if not held_out else ():
            on_sources[place.primitive][place.part] += 1
    console.print("\n[bold]Do primitives sit on parts?")
    print_rows(console, ("domain", "primitives that follow one part", "their median distance to it"), rows)
    console.print(f"it follows a part if that part is the nearest in at least {percent(FOLLOWS)} of the images")
    return {primitive: parts.most_common(1)[0][0] for primitive, parts in sorted(on_sources.items())}


def _on_parts(run: OpenedRun, target: Subset, image: int, explanation: Explanation) -> dict[int, str]:
    """The part that each primitive sits on in one image, where it does: not always the one it mostly follows."""
    centres = true_centres(run, target)
    assert centres is not None
    placed = explanation.descriptors.centre[0].cpu().numpy()  # (K, 2)
    distances = np.linalg.norm(placed[:, None] - centres[image], axis=2)  # (K, parts)
    near = np.flatnonzero(distances.min(1) <= 2 * WITHIN)  # the grid is 2 wide
    return {int(k): PARTS[distances[k].argmin()] for k in near}


def _spread(images: int) -> Int[np.ndarray, "n"]:
    """Positions of some images of different classes: a domain is ordered by class."""
    return (np.linspace(0.2, 0.7, IMAGES_PER_DOMAIN) * images).astype(np.int64)


def _explain_one(run: OpenedRun, path: Path, console: Console) -> None:
    """The target image classified right with the most confidence (or the first): its relations, drawn and said."""
    target = whole(run.benchmark.domain(run.target))
    logits, labels = predict(run.model.algorithm, target, run.device)
    confidence = logits.softmax(1).amax(1) * (logits.argmax(1) == labels)
    chosen = int(confidence.argmax())
    image = load_images(target, np.array([chosen]))[0][0]
    explanation = explain(run.model, image)
    truth = run.classes[int(labels[chosen])]
    pixels = image.permute(1, 2, 0).numpy()
    explanation_figure(
        Picture(pixels), explanation, path, truth=truth, names=_on_parts(run, target, chosen, explanation)
    )
    with whole_file(path.with_name(EXPLAINED)) as file:
        Image.fromarray(pixels).save(file, "PNG")
    reason = "the one classified right with the most confidence" if confidence.any() else "none being right"
    console.print(
        f"\n[bold]Why “{explanation.predicted}”?[/bold] Image {chosen} of {run.target}, {reason}. "
        "Its strongest relations:"
    )
    for relation in explanation.relations[:SHOWN_RELATIONS]:
        console.print(
            f"  {relation.words}: {relation.contribution:.3f} = weight {relation.weight:.3f} "
            f"× satisfaction {relation.satisfaction:.2f}"
        )
