"""A run before it starts: images of each split, training length, batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parse_dg.data.benchmarks import outline
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import read_finished
from parse_dg.runs.parts import target_part, validation_part
from parse_dg.runs.run import count_steps, prepare
from parse_dg.training.protocol import protocol_sentences


class PartCount(NamedTuple):
    """Some images of a domain, and what they are for."""

    domain: str
    purpose: str
    images: int


@dataclass(frozen=True, kw_only=True)
class RunPreview:
    """What a run would do."""

    finished: bool
    """Then it would do nothing: the run is there already."""
    parts: tuple[PartCount, ...]
    classes: int
    steps: int
    batch: int
    """Images in a batch, of all source domains together."""
    epochs: float
    """How often as many images are trained on as the source domains have for it."""
    checks: int
    rules: tuple[str, ...]
    """By which it is scored, a sentence each."""


def preview_run(config: RunConfig, folder: Path) -> RunPreview:
    """What a run would do; raises where it would be refused. Images are counted; nothing is read or written."""
    finished = read_finished(config, folder) is not None
    benchmark, split = prepare(config, outline(config.data))
    chosen_by = validation_part(config.split, config.protocol)
    counted = [("source: trains", split.training)]
    if split.validation_domain:
        counted.append((f"source: validates, {chosen_by}", (split.validation_domain,)))
        counted.append(("source: held out", split.validation))
    else:
        counted.append((f"source: validates, {chosen_by}", split.validation))
    counted.append((f"target: the result, {target_part(config.split)}", (split.target,)))
    if split.target_held_out:
        counted.append(("target: held out, for the oracle", (split.target_held_out,)))
    parts = [PartCount(one.domain.name, purpose, len(one.indices)) for purpose, some in counted for one in some]
    steps, batch = count_steps(config, split), config.training.batch_size(len(split.training))
    rules = protocol_sentences(config.protocol, config.split)
    if config.algorithm.trains_twice:
        rules.append("It is trained twice: how long is found on the training images, then on all of the sources.")
    return RunPreview(
        finished=finished,
        parts=tuple(parts),
        classes=len(benchmark.classes),
        steps=steps,
        batch=batch,
        epochs=steps * batch / sum(len(source.indices) for source in split.training),
        checks=sum(map(config.training.checks_at, range(1, steps))) + 1,
        rules=tuple(rules),
    )
