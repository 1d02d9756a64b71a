"""One run: a configuration becomes a folder of results (what is in it: folder.py)."""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from parse_dg.algorithms import Algorithm, BuildContext
from parse_dg.config import to_dict
from parse_dg.data.benchmarks import open_benchmark, require_target
from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import TrainingBatches, Words
from parse_dg.data.sampling import Sampler
from parse_dg.data.splits import LeaveOneOut, leave_one_out, seed_hash
from parse_dg.deploy.model_file import ModelSpec, save_model
from parse_dg.devices import pick_device
from parse_dg.files import write_all, write_json
from parse_dg.model.backbones.backbone import build_backbone
from parse_dg.runs.config import RunConfig
from parse_dg.runs.folder import claim, finish, hold, read_finished, read_result, require_same_images, writing_to
from parse_dg.runs.keeper import EVERY, Keeper, postponed_stop
from parse_dg.runs.metrics import check_line, read_checks
from parse_dg.runs.requirements import cautions, require_trainable, within_memory
from parse_dg.runs.result import RunResult
from parse_dg.runs.scoring import (
    WeightSelection,
    describe_split,
    how_chosen,
    run_environment,
    score_weights,
    scored_subsets,
    summarise,
)
from parse_dg.runs.tracking import Tracking
from parse_dg.runs.two_stage import SELECTION, Steering, all_of_sources, name_whole
from parse_dg.training.check import Best, Check, CheckInterruptedError, NonFiniteLossError, Observer
from parse_dg.training.checkpoint import remove_checkpoints
from parse_dg.training.pretrained import load_pretrained
from parse_dg.training.team import ALONE, Team
from parse_dg.training.trainer import Trainer

log = logging.getLogger(__name__)


def prepare(config: RunConfig, benchmark: Benchmark | None = None) -> tuple[Benchmark, LeaveOneOut]:
    """The benchmark of a run and its split; raises before anything is written if the configuration is wrong."""
    if benchmark is None:
        require_target(config.data)
        benchmark = open_benchmark(config.data)
    split = leave_one_out(benchmark, config.data.target, config.seed, config.split)
    require_trainable(config, benchmark, split)
    return benchmark, split


def count_steps(config: RunConfig, split: LeaveOneOut) -> int:
    """How many steps the run has."""
    images = sum(len(source.indices) for source in split.training)
    return config.training.total_steps(images, len(split.training))


def execute(
    config: RunConfig,
    folder: str | Path,
    observe: Observer | None = None,
    benchmark: Benchmark | None = None,
    *,
    checkpoint_every: float = EVERY,
    team: Team = ALONE,
    track: Sequence[str] = (),
) -> RunResult:
    """Train, keep the best, score it on the target, and write it all to `folder`.

    A finished run of the same configuration is returned as it is; an unfinished one goes on from its last
    checkpoint, of which one is written every so many seconds; a folder that holds a run of another configuration
    is refused, and one that another process is at. The processes of a `team` all call this, with the same
    arguments; the first of them writes. `track` names the trackers that follow the run.
    """
    folder, observe = Path(folder), observe or (lambda step, check: None)
    finished = read_finished(config, folder)
    if finished is not None:
        return finished
    benchmark, split = prepare(config, benchmark)
    joined = config.training.batch
    team.require_divisible(joined or config.training.batch_per_domain, "batch" if joined else "batch_per_domain")
    device = team.device or pick_device(config.training.device)
    with ExitStack() as stack:
        stack.enter_context(within_memory(config, benchmark, len(split.training), device, team.size))
        trainer = build_trainer(config, benchmark, split, device, team=team)
        stack.enter_context(hold(folder) if team.first else nullcontext())
        following = stack.enter_context(Tracking())
        finished = read_finished(config, folder)  # by another process, a moment ago
        if finished is not None:
            return finished
        keeper = Keeper(folder, config, checkpoint_every, team, trainer)
        attempt = _Attempt(config, benchmark, split, trainer, keeper, following, observe)
        attempt.begin(track)
        return attempt.finish()


@dataclass
class _Attempt:
    """A run that is not finished and that nobody else is at, from where it stood to its result."""

    config: RunConfig
    benchmark: Benchmark
    split: LeaveOneOut
    trainer: Trainer
    keeper: Keeper
    following: Tracking
    observe: Observer

    def begin(self, track: Sequence[str]) -> None:
        """What a run's folder has from its beginning, and who follows it."""
        folder, team = self.keeper.folder, self.keeper.team
        if self.keeper.saved:
            require_same_images(folder, self.benchmark)
        for line in cautions(self.benchmark, self.split):
            log.warning("%s", line)
        team.wait()  # all have read what was saved
        if team.first:
            split = describe_split(self.config, self.benchmark, self.split)
            claim(folder, self.config, split, self.keeper.metrics_length)
            self.following.open(track, folder, to_dict(self.config), read_checks(folder))

    def finish(self) -> RunResult:
        """Train what is left to be trained, and score it."""
        folder, team, device = self.keeper.folder, self.keeper.team, self.trainer.device
        config, split = self.config, self.split
        if config.algorithm.trains_twice:
            best, chosen = self._fit_twice()
            split = all_of_sources(split)
        else:
            best = self._fit(self.trainer)
            chosen = how_chosen(config, self.trainer)
        if not team.first:
            team.wait()  # for the first, which scores the target
            result = read_result(folder)
            assert result is not None
            return result
        plain = self.trainer.best_plain
        self._save_weights(best, plain)
        scored = score_weights(config, split, self.spec, best, device)
        without = plain and score_weights(config, split, self.spec, plain, device)
        result = summarise(config, self.benchmark, split, self.trainer.steps, scored, chosen, without)
        with writing_to(folder):
            environment = run_environment(device, self.keeper.seconds, team.size)
            write_json(folder / "environment.json", environment.to_dict())
            result = finish(folder, result)
            remove_checkpoints(folder)
        self.following.result = result
        team.wait()
        return result

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec(
            backbone=replace(self.config.backbone, weights=None),
            algorithm=self.config.algorithm,
            classes=self.benchmark.classes,
            image_size=self.benchmark.image_size,
            fit=self.config.data.fit,
            resize_to=self.benchmark.resize_to,
            domains=len(self.split.training),
        )

    def _fit(self, trainer: Trainer, steering: Steering | None = None) -> Best:
        """Train on from where the run stood: a line in metrics.jsonl for every check, checkpoints between."""
        keeper = self.keeper
        keeper.restore(trainer)
        path = keeper.folder / "metrics.jsonl" if keeper.team.first else Path(os.devnull)
        with writing_to(keeper.folder):
            metrics = path.open("ab", buffering=0)  # nothing is left to be written where a disk is full
        with metrics, postponed_stop(keeper.team) as asked_to_stop:

            def record(step: int, check: Check | None) -> None:
                if check:
                    line = check_line(trainer, check, steering.stage if steering else None)
                    with writing_to(keeper.folder):
                        write_all(metrics, json.dumps(line.to_dict(), allow_nan=False).encode() + b"\n")
                    self.following.record(line)
                self.observe(step, check)
                if steering:
                    steering.steer(trainer, step, check)
                if asked_to_stop() or keeper.due(last=trainer.ended):
                    keeper.save(trainer, metrics, steering)
                if asked_to_stop():
                    raise KeyboardInterrupt

            try:
                return trainer.fit(record, asked_to_stop)
            except (NonFiniteLossError, KeyboardInterrupt) as error:
                if isinstance(error, CheckInterruptedError):
                    keeper.save(trainer, metrics, steering)
                if trainer.best and keeper.team.first:
                    self._save_weights(trainer.best, trainer.best_plain)
                raise

    def _save_weights(self, best: Best, plain: Best | None) -> None:
        """The model's file; beside it that of the same run without averaging, where it is known."""
        folder = self.keeper.folder
        with writing_to(folder):
            save_model(folder / "model.safetensors", self.spec, best.state)
            if plain:
                save_model(folder / "model_plain.safetensors", self.spec, plain.state)

    def _fit_twice(self) -> tuple[Best, WeightSelection]:
        """Both stages of ERM++, or what is left of them: the second's weights with the first's last check."""
        config, trainer = self.config, self.trainer
        steering = Steering(config.algorithm.head_steps)
        if self.keeper.steering:
            steering.restore(self.keeper.steering)
        if steering.stage == 1:
            self._fit(trainer, steering)
            steering.stage = 2
        whole = all_of_sources(self.split)
        other = build_trainer(config, self.benchmark, whole, trainer.device, trainer.steps, trainer.team)
        other.scored = name_whole(other.scored, other.sources)
        best = self._fit(other, steering)
        averaged, by = trainer.averaging.report(), ", by the weights of stage 1"
        chosen = WeightSelection(SELECTION, averaged, validated_by=by, stages=steering.reports())
        return Best(steering.first, best.state), chosen


def build_trainer(
    config: RunConfig,
    benchmark: Benchmark,
    split: LeaveOneOut,
    device: torch.device,
    steps: int | None = None,
    team: Team = ALONE,
) -> Trainer:
    """A trainer whose every draw comes from generators seeded by the configuration; `steps` replaces its own."""
    order, augment, draws = (_generator(config, purpose) for purpose in ("order", "augment", "draws"))
    vocabulary = config.algorithm.learn_vocabulary(split.training)
    algorithm = build_start(config, len(benchmark.classes), len(split.training), vocabulary)
    sources, captions, joined = split.training, vocabulary is not None, config.training.batch is not None
    count = config.training.batch or config.training.batch_per_domain
    sampler = Sampler(
        sources,
        count,
        config.sampling,
        config.augment,
        order=order,
        draws=augment,
        captions=captions,
        joined=joined,
    )
    return Trainer(
        algorithm,
        TrainingBatches(sampler, benchmark.image_size, device, vocabulary, team.share),
        (split.validation_domain,) if split.validation_domain else split.validation,
        steps=count_steps(config, split) if steps is None else steps,
        training=config.training,
        optimizer=config.optimizer,
        augment=config.augment,
        generator=draws,
        device=device,
        image_size=benchmark.image_size,
        averaging=config.averaging,
        protocol=config.protocol,
        scored=scored_subsets(split, config.protocol),
        sources={source.domain.name for source in split.training},
        seed=config.seed,
        team=team,
    )


def build_start(config: RunConfig, classes: int, domains: int, vocabulary: Words | None = None) -> Algorithm:
    """The method before its first step; its head is drawn alike whether or not the backbone has weights to read."""
    start = _generator(config, "start")
    backbone = build_backbone(config.backbone, config.mixstyle, start)
    load_pretrained(backbone, config.backbone)
    smoothing = config.training.label_smoothing
    context = BuildContext(
        backbone, classes, label_smoothing=smoothing, generator=start, domains=domains, vocabulary=vocabulary
    )
    return config.algorithm.build(context)


def _generator(config: RunConfig, purpose: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed_hash(config.seed, purpose))
