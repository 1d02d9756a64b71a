"""The training loop of any algorithm: batches, validation on the source domains, the best weights kept.

The target domain is not known here, unless it is among the images that are scored for the record.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import torch

from parse_dg.algorithms.base import Algorithm, Minibatch, Turn
from parse_dg.config import Config, Count, Fraction, Positive, Whole, at_most
from parse_dg.data.augment.batches import AugmentConfig, normalise, prepare_images, to_unit
from parse_dg.data.loader import Batch
from parse_dg.data.splits import Subset, seed_hash
from parse_dg.devices import HostCopy, uses_bf16
from parse_dg.training.accuracy import Accuracy, Augmentation, accuracy
from parse_dg.training.averaging import AveragingConfig, build_averaging, estimate_statistics
from parse_dg.training.check import Best, Check, CheckInterruptedError, NonFiniteLossError, Observer, StateDict
from parse_dg.training.optimizer import OptimizerConfig, build_optimizer, set_rates
from parse_dg.training.protocol import ProtocolConfig
from parse_dg.training.recording import Recording, find_backbone
from parse_dg.training.team import ALONE, OF_A_SHARE, Team


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Config):
    """Training length, batch size and precision."""

    steps: Count = 600
    """Updates of the weights, each on one batch."""
    epochs: Annotated[Positive, at_most(10**6)] | None = None
    """If given, replaces `steps`: how often as many images are seen as all source domains hold together."""
    batch_per_domain: Count = 32
    """Images of each source domain in a batch."""
    batch: Count | None = None
    """If given, replaces `batch_per_domain`: images in a batch, drawn from all source domains joined into one."""
    check_every: Count = 50
    """Steps between two checks on the held-out images of the source domains."""
    check_from: Whole = 0
    """The step that checks are counted from; 1: the first step is a check, as in DomainBed."""
    label_smoothing: Fraction = 0.0
    """How much of the target distribution is spread evenly over all classes."""
    device: str = "auto"
    """`auto` takes CUDA where there is one, else the CPU; `cpu`, `cuda` or `mps` that one."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """`auto`: bf16 autocast on CUDA, float32 elsewhere."""
    cuda_graph: bool = True
    """On CUDA the backbone's work is recorded once and replayed, which makes a step faster and changes nothing
    else."""

    def checks_at(self, step: int) -> bool:
        return step >= self.check_from and (step - self.check_from) % self.check_every == 0

    def batch_size(self, domains: int) -> int:
        return self.batch_per_domain * domains if self.batch is None else self.batch

    def total_steps(self, source_images: int, domains: int) -> int:
        """How many steps the run has, on sources of this many training images."""
        if self.epochs is None:
            return self.steps
        return max(1, math.ceil(self.epochs * source_images / self.batch_size(domains)))


class PendingLoss(NamedTuple):
    """The loss of a step, on its way to the CPU, where it is checked to be finite."""

    step: int
    terms: dict[str, torch.Tensor]
    """Its terms and their `total`."""
    on_host: HostCopy


def _copy_of_weights(network: Algorithm) -> StateDict:
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


class Trainer:
    """One run of one algorithm."""

    def __init__(
        self,
        algorithm: Algorithm,
        batches: Iterator[Batch],
        validation: Sequence[Subset],
        *,
        steps: int,
        training: TrainingConfig,
        optimizer: OptimizerConfig,
        augment: AugmentConfig,
        generator: torch.Generator,
        device: torch.device,
        image_size: int | None = None,
        averaging: AveragingConfig = AveragingConfig(),  # noqa: B008 - frozen
        protocol: ProtocolConfig = ProtocolConfig(),  # noqa: B008 - frozen
        scored: Mapping[str, Subset] = MappingProxyType({}),
        sources: Collection[str] = (),
        seed: int = 0,
        team: Team = ALONE,
    ):
        """Without `validation` nothing is chosen: the last weights are kept.

        `scored` are other images, by name, that checks also score.
        `sources` are the domains that are trained on: if the protocol says so, checks augment their images, by
        draws from `seed`.
        `team`: the processes that train together; `batches` then hold this one's share of the images.
        """
        team.adopt(algorithm)
        self.algorithm = algorithm.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.batches, self.validation, self.steps = batches, validation, steps
        self.training, self.optimizer_config, self.augment = training, optimizer, augment
        self.generator, self.device = generator, device
        self.image_size, self.protocol, self.scored = image_size, protocol, scored
        self.sources, self.seed, self.team = sources, seed, team
        self.bf16 = uses_bf16(training.precision, device)
        self.optimizer = build_optimizer(algorithm, optimizer)
        self.averaging = build_averaging(self.algorithm, averaging)
        self.step = 0
        self.sums: dict[str, torch.Tensor] = {}
        self.counts: Counter[str] = Counter()
        """The loss's terms since the last check: their sums, and of how many steps."""
        self.means: dict[str, float] = {}
        """At the last check."""
        self.stopped = False
        self.unchecked = False
        """Whether the last step has a check that is not made yet."""
        self.interrupted: Callable[[], bool] = lambda: False
        self.best: Best | None = None
        self.plain: Check | None = None
        """Of the weights of the step themselves, beside the last check, where averages are scored and they too."""
        self.best_plain: Best | None = None
        """The best of those, by their own validation."""
        self.watched: PendingLoss | None = None
        record = training.cuda_graph and device.type == "cuda" and team.size == 1
        self.backbone = find_backbone(algorithm) if record else None
        self.recording: Recording | None = None

    def fit(self, observe: Observer, interrupted: Callable[[], bool] = lambda: False) -> Best:
        """Train for all steps, or until stopped; the best weights by validation on the source domains.

        A check takes a while: it is given up when `interrupted` (`CheckInterruptedError`), and made when the run is
        resumed.
        """
        self.algorithm.train()
        self.interrupted = interrupted
        while not self.ended:
            if not self.unchecked:
                self._make_step()
            check = self._check(self.step) if self.unchecked else None
            observe(self.step, check)
        assert self.best is not None
        return self._scored_average(self.step, self.means) if self.averaging.finish() else self.best

    def _make_step(self) -> None:
        self.step += 1
        self._set_rates()
        terms = self.update(self.step, self.prepare_example(next(self.batches).to(self.device)))
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.counts.update(terms.keys())
        self.unchecked = self.training.checks_at(self.step) or self.step == self.steps

    def _set_rates(self) -> None:
        set_rates(self.optimizer, self.optimizer_config, self.step - 1, self.steps)

    @property
    def ended(self) -> bool:
        return self.stopped or (self.step == self.steps and not self.unchecked)

    def stop(self) -> None:
        """End with this step; for an observer that has been told of its check."""
        self.stopped = True

    def lower_rates(self, factor: float) -> None:
        """From the next step on, every rate is `factor` times what it would have been."""
        for group in self.optimizer.param_groups:
            group["initial_lr"] *= factor

    def update(self, step: int, example: Minibatch) -> dict[str, torch.Tensor]:
        """Every turn of the algorithm on one batch: loss, gradient, update; the loss's terms, detached."""
        self.algorithm.advance(step, self.steps)
        found: dict[str, torch.Tensor] = {}
        turns = self.algorithm.turns(example, self.generator)
        while (turn := self._next_turn(turns, example)) is not None:
            total = torch.stack(list(turn.terms.values())).sum()
            found |= {name: value.detach() for name, value in turn.terms.items()}
            found["total"] = found.get("total", 0) + total.detach()
            self._watch(PendingLoss(step, {**found}, HostCopy(total)))
            self._descend(total, turn)
        with self._autocast():
            self.averaging.after_step(step, example.images)
        return found

    def _next_turn(self, turns: Iterator[Turn], example: Minibatch) -> Turn | None:
        with self._recorded(example), self.team.sharing(self.algorithm), self._autocast():
            return next(turns, None)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)

    def _descend(self, loss: torch.Tensor, turn: Turn) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for group in self.optimizer.param_groups:
            waits = turn.groups is not None and group["name"] not in turn.groups
            for parameter in group["params"]:
                if waits:
                    parameter.grad = None  # Adam passes over it, and over what it has gathered about it
                elif turn.afresh:
                    self.optimizer.state.pop(parameter, None)
            if group["name"] in OF_A_SHARE:
                self.team.add_up(group["params"])
        if self.optimizer_config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.algorithm.parameters(), self.optimizer_config.clip_norm)
        self.optimizer.step()

    def _recorded(self, example: Minibatch) -> AbstractContextManager[None]:
        """Within, the backbone's work is replayed, where that can be done."""
        if self.backbone is None:
            return nullcontext()
        if self.recording is None:
            self.recording = Recording(self.backbone, example.images.shape, bf16=self.bf16)
        return self.recording.in_place()

    def _watch(self, loss: PendingLoss) -> None:
        """Stop at a loss that is no number: on the CPU this one, on CUDA the one before, to wait for nothing."""
        before, self.watched = self.watched, loss
        self._stop_if_not_finite(before if self.device.type == "cuda" else loss)

    def _stop_if_not_finite(self, loss: PendingLoss | None) -> None:
        if loss is not None and not math.isfinite(float(loss.on_host.read())):
            raise NonFiniteLossError(loss.step, {n: float(v) for n, v in loss.terms.items()}, self.best)

    def prepare_example(self, batch: Batch) -> Minibatch:
        if batch.draws is None:
            images = normalise(to_unit(batch.images)).contiguous(memory_format=torch.channels_last)
        else:
            images = prepare_images(batch.images, self.augment, batch.draws, self.image_size)
        return Minibatch(images, batch.labels, batch.domains, batch.captions)

    def _check(self, step: int) -> Check:
        """Validate; keep the weights if they are the best so far."""
        self.means = {name: float(total) / self.counts[name] for name, total in self.sums.items()}
        self._set_rates()  # which the check says: the step may have been made in an earlier attempt
        self._stop_if_not_finite(self.watched)
        self.team.align(self.algorithm)
        self.team.align(self.averaging.scored)
        check, self.best = self._look(self.averaging.scored, step, self.means, self.best)
        if self.averaging.config.also_plain:
            self.plain, self.best_plain = self._look(self.algorithm, step, self.means, self.best_plain)
        self.sums, self.counts = {}, Counter()
        self.stopped |= not self.averaging.after_check(step, check.mean_loss)
        self.unchecked = False
        return check

    def _seen(self, images: int) -> None:
        """Between two batches of a check."""
        if self.unchecked and self.interrupted():
            raise CheckInterruptedError

    def _look(
        self, network: Algorithm, step: int, losses: dict[str, float], best: Best | None
    ) -> tuple[Check, Best]:
        """A check of a network, and the better of it and the best so far."""
        check = self._validate(network, step, losses)
        last = self.protocol.selection == "oracle" or not self.validation
        if best is None or last or check.better_than(best.check):
            best = Best(check, _copy_of_weights(network))
        return check, best

    def _validate(self, network: Algorithm, step: int, losses: dict[str, float]) -> Check:
        validation = {subset.domain.name: self._score(network, subset, step) for subset in self.validation}
        scores = {name: self._score(network, subset, step) for name, subset in self.scored.items()}
        rates = {str(group["name"]): float(group["lr"]) for group in self.optimizer.param_groups}
        check = Check(step, losses, validation, rates, scores)
        if self.validation and not math.isfinite(check.mean_loss):
            raise NonFiniteLossError(step, {**losses, "validation": check.mean_loss}, self.best)
        return check

    def _scored_average(self, step: int, losses: dict[str, float]) -> Best:
        """The weights that the end of the run has made, with statistics of their own, and a check of them."""
        count = self.averaging.config.statistics_batches
        batches = (self.prepare_example(next(self.batches).to(self.device)).images for _ in range(count))
        with self._autocast():
            estimate_statistics(self.algorithm, batches)
        scored = self.averaging.scored
        return Best(self._validate(scored, step, losses), _copy_of_weights(scored))

    def _score(self, network: Algorithm, subset: Subset, step: int) -> Accuracy:
        """Accuracy on a subset; images of the sources may be augmented, by draws of their own."""
        if self.protocol.augment_validation and subset.domain.name in self.sources:
            seed = seed_hash(self.seed, "validation", subset.domain.name, step)
            return accuracy(network, subset, self.device, Augmentation(self.augment, seed), self._seen)
        if len(subset.indices) < self.team.size:
            return accuracy(network, subset, self.device)
        share = Subset(subset.domain, subset.indices[self.team.share])
        return self.team.add_scores(accuracy(network, share, self.device, seen=self._seen), self.device)
