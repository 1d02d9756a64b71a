"""What a trained GVRT says of images: the sentence that it writes, beside what is known of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from parse_dg.config import require
from parse_dg.data.images import decode
from parse_dg.data.loader import load_images
from parse_dg.data.splits import Subset, whole
from parse_dg.errors import InputError
from parse_dg.runs.afterwards.opened import OpenedRun
from parse_dg.wording import some

BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Description:
    """An image in words."""

    file: str | None = None
    domain: str | None = None
    """Its domain, where it is of the run's benchmark."""
    index: int | None = None
    truth: str | None = None
    """None: not known."""
    predicted: str
    argued: str
    """The class that the sentence argues for: the predicted one, unless another was asked for."""
    sentence: str
    captions: tuple[str, ...] = ()
    """What the data set says of the image."""


def describe_files(run: OpenedRun, files: Sequence[Path], argued: str | None = None) -> list[Description]:
    """Sentences about image files of any size, by a trained GVRT."""
    writer = _Writer(run, argued)
    found: list[Description] = []
    for start in range(0, len(files), BATCH):
        names = files[start : start + BATCH]
        pixels = np.stack([decode(file, writer.spec.framing) for file in names])
        written = writer.write(torch.from_numpy(pixels).permute(0, 3, 1, 2))
        found += [replace(words, file=str(file)) for file, words in zip(names, written, strict=True)]
    return found


def describe_domain(run: OpenedRun, domain: str | None, count: int, argued: str | None = None) -> list[Description]:
    """Sentences about `count` images of a domain of the run's benchmark, the target if none is named.

    They are spread over the classes. Those of the target are of the images that the run's result is of.
    """
    require(count >= 1, "--count", count, "at least 1")
    writer = _Writer(run, argued)
    of_target = domain is None or domain == run.config.data.target
    subset = run.target_images if of_target else whole(run.benchmark.domain(str(domain)))
    chosen = spread(subset.domain.labels[subset.indices], count)
    found: list[Description] = []
    for start in range(0, len(chosen), BATCH):
        positions = chosen[start : start + BATCH]
        written = writer.write(load_images(subset, positions)[0])
        places = subset.indices[positions].tolist()
        found += [_with_known(words, subset, i, writer.classes) for i, words in zip(places, written, strict=True)]
    return found


def spread(labels: Int[np.ndarray, "N"], count: int) -> Int[np.ndarray, "n"]:
    """Positions of `count` images, or of all: the first of each class, then the second of each, and so on."""
    order = np.argsort(labels, kind="stable")
    sorted_labels = labels[order]
    turn = np.arange(len(labels)) - np.searchsorted(sorted_labels, sorted_labels)  # 0 for the first of its class
    return order[np.argsort(turn, kind="stable")][:count]


class _Writer:
    """The model of a run, asked about one batch after another."""

    def __init__(self, run: OpenedRun, argued: str | None):
        if not run.config.algorithm.writes_sentences:
            advice = "only gvrt puts images in words, train it with `parse-dg train --algorithm gvrt`"
            raise InputError(f"{run.path} is a run of {run.config.algorithm.name}: {advice}")
        self.model, self.algorithm = run.model, run.model.algorithm
        self.classes, self.spec = run.classes, run.model.spec
        if argued is not None and argued not in self.classes:
            raise InputError(f"unknown class {argued!r} to argue for: valid are {some(self.classes, 20)}")
        self.argued = None if argued is None else self.classes.index(argued)

    def write(self, images: UInt8[Tensor, "B 3 H W"]) -> Iterator[Description]:
        prepared = self.model.prepare(images)
        with torch.no_grad():
            predicted = self.algorithm(prepared).argmax(1)
        labels = predicted if self.argued is None else torch.full_like(predicted, self.argued)
        sentences = self.algorithm.sentences(prepared, labels)
        for one, other, sentence in zip(predicted.tolist(), labels.tolist(), sentences, strict=True):
            yield Description(predicted=self.classes[one], argued=self.classes[other], sentence=sentence)


def _with_known(words: Description, subset: Subset, index: int, classes: Sequence[str]) -> Description:
    domain = subset.domain
    return replace(
        words,
        file=str(domain.files.root / domain.files.paths[index]) if domain.files else None,
        domain=domain.name,
        index=index,
        truth=classes[int(domain.labels[index])],
        captions=domain.captions[index] if domain.captions else (),
    )
