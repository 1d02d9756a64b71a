"""The paper's figures of a run: which classes, primitives and images are shown, chosen by rule and never by eye.

Each function draws one figure and returns, in words, what was chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from parse_dg.data.contact_sheets import spread
from parse_dg.data.loader import load_images
from parse_dg.data.splits import Subset
from parse_dg.deploy.names import called
from parse_dg.errors import InputError, unknown
from parse_dg.explain.classes import ON_CARD, class_cards
from parse_dg.explain.explanation import as_batch, read_images
from parse_dg.explain.faces import faces_of
from parse_dg.explain.figures.cards import cards_figure, faces_figure, fitting
from parse_dg.explain.figures.errors import ErrorBlock, ImageGroup, JudgedImage, errors_figure
from parse_dg.explain.figures.explanation import prepare_folder
from parse_dg.explain.figures.page import check_place
from parse_dg.explain.figures.pipeline import PipelineImage, pipeline_figure, read_pipeline, step_figures
from parse_dg.explain.figures.primitives import ClassBlock, ReadImage, primitives_figure
from parse_dg.explain.measures.collapse import Coincidence, find_coinciding
from parse_dg.explain.measures.images import SubsetPrimitives, locate, require_primitives
from parse_dg.explain.measures.structure_use import primitive_weights
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.wording import plural

CLASSES = {
    "primitives": {"column": 3, "page": 3},
    "errors": {"column": 1, "page": 2},
    "cards": {"column": 4, "page": 8},
}
PRIMITIVES = {"primitives": {"column": 1, "page": 3}, "errors": {"column": 2, "page": 2}}
"""How many are shown, unless they are chosen."""
CANDIDATES = 32
"""Of how many images of a class in a domain, at most, one is chosen."""
SHOWN = 2
"""Right images, and wrong ones, of a class."""


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """What every figure of a run is asked for."""

    run: OpenedRun
    path: Path
    width: str = "page"
    classes: Sequence[str] = ()
    primitives: Sequence[int] = ()
    domains: Sequence[str] = ()


def draw_primitives(asked: FigureRequest) -> str:
    """Fig. primitive: of every class and domain, the image whose presence is nearest to the mean of its class.

    The primitives are those with the largest share in the compositions of the classes that are shown.
    """
    run = _open(asked)
    labels = _labels(run, asked, "primitives")
    primitives = _primitives(run, asked, labels, "primitives")
    known = [subset.domain.name for subset in run.held_out]
    _require_all("domain of the run", asked.domains, known)
    domains = [name for name in known if not asked.domains or name in asked.domains]
    candidates = [_candidates(subset, labels) for subset in run.held_out if subset.domain.name in domains]
    located = [locate(run.model, subset, run.progress) if len(subset.indices) else None for subset in candidates]
    blocks = []
    for label in labels:
        rows = [_representative(run, s, z, label) for s, z in zip(candidates, located, strict=True)]
        blocks.append(ClassBlock(run.classes[label], tuple(rows)))
    names = run.model.names
    primitives_figure(asked.path, blocks, domains, primitives, unseen=run.target, width=asked.width, names=names)
    return (
        f"classes {', '.join(run.classes[label] for label in labels)}; primitives "
        f"{', '.join(called(k, names) for k in primitives)}; of each class and domain, of up to "
        f"{CANDIDATES} images, the one whose presence of all primitives is nearest to their mean; {run.target} was "
        "never seen in training"
    )


def _candidates(subset: Subset, labels: Sequence[int]) -> Subset:
    """Some images of each class, evenly spread over those there are."""
    chosen = []
    for label in labels:
        mine = subset.indices[subset.domain.labels[subset.indices] == label]
        chosen.append(mine[list(spread(len(mine), CANDIDATES))])
    return Subset(subset.domain, np.concatenate(chosen))


def _representative(
    run: OpenedRun, subset: Subset, located: SubsetPrimitives | None, label: int
) -> ReadImage | None:
    if located is None or not (located.labels == label).any():
        return None
    mine = (located.labels == label).nonzero().flatten().cpu()
    presence = located.presence.cpu()[mine]
    nearest = int((presence - presence.mean(0)).square().sum(1).argmin())
    return _read(run, subset, mine[nearest : nearest + 1].numpy())[0]


def draw_errors(asked: FigureRequest) -> str:
    """Fig. error: the images whose collapse is nearest to the mean of their group, the most confident first.

    The classes are those with most wrong images among those with enough right ones.
    """
    run = _open(asked)
    subset = run.target_images
    located = locate(run.model, subset, run.progress)
    found = find_coinciding(located)
    labels = _labels_with_errors(run, asked, located)
    blocks = []
    for label in labels:
        right, wrong = (
            _group(run, subset, located, found, ((located.labels == label) & chosen).cpu())
            for chosen in (located.right, ~located.right)
        )
        primitives = tuple(_primitives(run, asked, [label], "errors"))
        blocks.append(ErrorBlock(run.classes[label], right, wrong, primitives))
    errors_figure(asked.path, blocks, domain=run.target, width=asked.width, names=run.model.names)
    means = [
        f"{b.name}: collapse {b.right.collapse:.2f} over the {b.right.count:,} images that are right, "
        f"{b.wrong.collapse:.2f} over the {b.wrong.count:,} that are wrong"
        for b in blocks
    ]
    return f"{'; '.join(means)}; shown are the images nearest to these means"


def _labels_with_errors(run: OpenedRun, asked: FigureRequest, located: SubsetPrimitives) -> list[int]:
    right, wrong = (
        torch.bincount(located.labels[chosen].cpu(), minlength=len(run.classes))
        for chosen in (located.right, ~located.right)
    )
    fitting = (right >= SHOWN) & (wrong >= SHOWN)
    if not asked.classes and fitting.any():
        order = (wrong * fitting).argsort(descending=True, stable=True)[: CLASSES["errors"][asked.width]].tolist()
        return [label for label in order if fitting[label]]
    if not asked.classes:
        raise InputError(f"no class has {SHOWN} right and {SHOWN} wrong images of {run.target}: nothing to compare")
    labels = _labels(run, asked, "errors")
    for label in labels:
        if not fitting[label]:
            raise InputError(
                f"class {run.classes[label]!r} has {int(right[label])} right and {int(wrong[label])} wrong images "
                f"of {run.target}: expected at least {SHOWN} of each"
            )
    return labels


def _group(
    run: OpenedRun, subset: Subset, located: SubsetPrimitives, found: Coincidence, members: Tensor
) -> ImageGroup:
    """The images of a group that stand for it."""
    rows = members.nonzero().flatten().numpy()
    collapse, probability = found.collapse.cpu().numpy()[rows], located.probability.cpu().numpy()[rows]
    away = np.abs(collapse - collapse.mean()).round(6)
    chosen = rows[np.lexsort((rows, -probability, away))[:SHOWN]]
    images = tuple(
        JudgedImage(
            **vars(read),
            predicted=run.classes[int(located.predicted[row])],
            probability=float(located.probability[row]),
            present=found.present[row].cpu(),
            place=found.place[row].cpu(),
            collapse=float(found.collapse[row]),
        )
        for row, read in zip(chosen.tolist(), _read(run, subset, chosen), strict=True)
    )
    return ImageGroup(images=images, count=len(rows), collapse=float(collapse.mean()))


def draw_pipeline(asked: FigureRequest, image: str | None = None, steps: Path | None = None) -> str:
    """The pipeline on an image file or DOMAIN:NUMBER; without one, on the most confident right image among some of
    the target's. With a folder for `steps`, each step is drawn there by itself, too.
    """
    run = _open(asked)
    if steps is not None:
        prepare_folder(steps)
    if image is None:
        seen = _example(run)
    else:
        given = run.find_image(image)
        seen = read_pipeline(run.model, as_batch(run.model, given.image)[0], Path(image).name, given.truth)
    pipeline_figure(asked.path, seen, width=asked.width)
    if steps is not None:
        step_figures(steps, seen)
    truth = "" if seen.truth is None else f", true {seen.truth}"
    return f"{seen.title}: predicted {seen.explanation.predicted}{truth}"


def _example(run: OpenedRun) -> PipelineImage:
    subset = _candidates(run.target_images, spread(len(run.classes), 8))
    located = locate(run.model, subset, run.progress)
    row = int((located.probability * located.right).argmax())
    image, label = load_images(subset, np.array([row]))
    title = f"image {int(subset.indices[row])} of {run.target}, never seen"
    return read_pipeline(run.model, image[0], title, run.classes[int(label[0])])


def draw_faces(asked: FigureRequest) -> str:
    """The faces of the primitives that were asked for, or of all; of too many, those with most weight."""
    run = _open(asked)
    faces = faces_of(run)
    assert faces is not None  # the run fits its images
    ranked = primitive_weights(run.model).sum(0).argsort(descending=True, stable=True)
    chosen = list(dict.fromkeys(asked.primitives)) or sorted(ranked[: fitting(faces, asked.width)].tolist())
    faces_figure(asked.path, faces, chosen, run.model.names, width=asked.width)
    return f"faces of {len(chosen)} of {plural(len(faces.faces), 'primitive')}: {faces.words}"


def draw_cards(asked: FigureRequest) -> str:
    """Classes as cards: the named ones, or some that are evenly spread."""
    run = _open(asked)
    names = [run.classes[label] for label in _labels(run, asked, "cards")]
    faces = faces_of(run)
    assert faces is not None  # the run fits its images
    cards = class_cards(run.model, faces, names)
    cards_figure(asked.path, cards, faces, run.model.names, width=asked.width)
    return (
        f"classes {', '.join(names)}; of each its {ON_CARD} strongest relations between primitives, drawn over "
        "where these are in the mean of its training images, stretched and moved apart to be seen"
    )


def _open(asked: FigureRequest) -> OpenedRun:
    check_place(asked.path)
    run = asked.run
    require_primitives(run)
    count = run.model.parse_network().structure.vocabulary.primitives
    for k in asked.primitives:
        if not 0 <= k < count:
            raise InputError(f"--primitives {k}: valid are numbers from 0 to {count - 1}")
    return run


def _require_all(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def _labels(run: OpenedRun, asked: FigureRequest, figure: str) -> list[int]:
    """The classes that were asked for, or some that are evenly spread."""
    _require_all("class", asked.classes, run.classes)
    if asked.classes:
        return [run.classes.index(name) for name in dict.fromkeys(asked.classes)]
    return list(spread(len(run.classes), CLASSES[figure][asked.width]))


def _primitives(run: OpenedRun, asked: FigureRequest, labels: Sequence[int], figure: str) -> list[int]:
    """The primitives that were asked for, or those that these classes rest on most."""
    if asked.primitives:
        return list(dict.fromkeys(asked.primitives))
    weight = primitive_weights(run.model)[list(labels)].sum(0)
    return weight.argsort(descending=True, stable=True)[: PRIMITIVES[figure][asked.width]].tolist()


def _read(run: OpenedRun, subset: Subset, rows: Int[np.ndarray, "n"]) -> list[ReadImage]:
    """Some images of a subset with their heat maps."""
    images, _ = load_images(subset, rows)
    readings = read_images(run.model, images)
    return [ReadImage(image, reading.descriptors) for image, reading in zip(images, readings, strict=True)]
