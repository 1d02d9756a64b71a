"""Model selection over the checks of finished runs: which step of which hyper-parameters is the one to report.

The three ways are those of DomainBed (Gulrajani & Lopez-Paz 2021, arXiv:2007.01434), with its treatment of equals:
between the checks of a run the first wins, between hyper-parameters the last. Only where a validation loss is
recorded, as in our runs, that decides first: so a run chooses among its own checks (`Check.better_than`). The order
is that of the records, so whoever reads them lists the hyper-parameters in the order in which they were drawn.

Every domain has two parts: `in`, on which a source trains, and `out`, which is held out. What is reported is always
the accuracy on the target's `in` part: the larger one, and of a target no part is trained on.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from parse_dg.config import require
from parse_dg.errors import InputError, require_known


@dataclass(frozen=True, kw_only=True)
class Record:
    """One check of one run: what was trained, without which domains, and how accurate it was where."""

    data_set: str
    algorithm: str
    domains: tuple[str, ...]
    held_out: tuple[str, ...]
    """The domains that were not trained on: the target, or the target and one to validate on."""
    trial: int
    """Number of the repetition: its seed decides the parts of each domain."""
    hyperparameters: str
    """Tells the draws of a trial apart; two runs with the same have the same hyper-parameters."""
    step: int
    in_part: Mapping[str, float]
    """By domain, accuracy as a fraction on its `in` part. Domains that no selection asks for may be left out."""
    out_part: Mapping[str, float]
    settings: Mapping[str, object] = field(default_factory=dict)
    loss: float = 0.0
    """The mean over the sources' `out` parts, which decides between checks of one accuracy; 0 if not recorded."""
    share: float = 0.8
    """Of the target's images, the fraction in its `in` part."""

    def __post_init__(self) -> None:
        domains = ", ".join(self.domains)
        require(len(set(self.domains)) == len(self.domains) > 1, "domains", domains, "two or more different names")
        proper = 0 < len(self.held_out) == len(set(self.held_out)) and set(self.held_out) < set(self.domains)
        require(proper, "held_out", ", ".join(self.held_out), f"some, but not all, of {domains}, each once")
        require(self.step >= 0, "step", self.step, "0 or more")
        require(0 < self.share <= 1, "share", self.share, "above 0 and at most 1")
        for name, part in (("in_part", self.in_part), ("out_part", self.out_part)):
            for domain, value in part.items():
                require(domain in self.domains, name, domain, f"of the domains {domains}")
                # written so that NaN, which compares false with everything, is refused too
                require(0 <= value <= 1, f"{name} of {domain}", value, "an accuracy from 0 to 1")


class Case(NamedTuple):
    """What one model is selected for."""

    data_set: str
    algorithm: str
    target: str
    trial: int


class SelectedModel(NamedTuple):
    """The model that a selection chose."""

    accuracy: float
    """On the target's `in` part: the result."""
    step: int
    hyperparameters: str
    score: float
    settings: Mapping[str, object]


class Selection(NamedTuple):
    """A way to select, told in words."""

    name: str
    summary: str
    needs: str
    """The runs without which nothing can be selected."""
    choose: Callable[[Sequence[Record], str], SelectedModel | None]
    """Records of one trial and one draw of hyper-parameters, and the target → the best check, if there is one."""


def select(records: Iterable[Record], selection: str) -> dict[Case, SelectedModel]:
    """The model that is selected for every case; a case in which nothing can be selected is left out."""
    choose = find_selection(selection).choose
    cases: dict[Case, dict[str, list[Record]]] = {}  # then by hyper-parameters
    for record in records:
        for target in record.held_out:  # with two domains held out, a run is a part of two cases
            draws = cases.setdefault(Case(record.data_set, record.algorithm, target, record.trial), {})
            draws.setdefault(record.hyperparameters, []).append(record)
    selected = {}
    for case, draws in cases.items():
        found = [candidate for draw in draws.values() if (candidate := choose(draw, case.target)) is not None]
        if found:
            selected[case] = max(reversed(found), key=lambda candidate: candidate.score)
    return selected


def find_selection(name: str) -> Selection:
    """The selection of that name."""
    require_known("selection", name, SELECTIONS)
    return SELECTIONS[name]


def average(values: Sequence[float]) -> float:
    """The mean as NumPy rounds it, so that two scores are equal here exactly when they are in DomainBed."""
    return float(np.mean(values))


def standard_error(values: Sequence[float]) -> float:
    """Of the mean, as DomainBed has it: the population's deviation over √n. It is 0 for a single value."""
    return float(np.std(np.array(values) / math.sqrt(len(values))))


def _training_domain(records: Sequence[Record], target: str) -> SelectedModel | None:
    ranked = []
    for record in _alone(records):
        sources = [domain for domain in record.domains if domain not in record.held_out]
        score = average([_accuracy(record, "out_part", domain) for domain in sources])
        ranked.append((score, -record.loss, record))
    best = max(ranked, key=lambda check: check[:2], default=None)
    return best and _selected(best[2], target, best[0])


def _leave_one_domain_out(records: Sequence[Record], target: str) -> SelectedModel | None:
    steps: dict[int, list[Record]] = {}
    for record in records:
        steps.setdefault(record.step, []).append(record)
    checks = [_cross_validated(steps[step], target) for step in sorted(steps)]
    return max((check for check in checks if check), key=lambda check: check.score, default=None)


def _cross_validated(records: Sequence[Record], target: str) -> SelectedModel | None:
    """The check at one step, scored on the domains held out beside the target, each in a run of its own."""
    alone = _alone(records)
    if len(alone) != 1:
        return None  # without the run, or with two that claim to be the same, there is nothing to report
    validation = {}
    for record in records:
        if len(record.held_out) == 2:
            (other,) = set(record.held_out) - {target}
            validation[other] = _accuracy(record, "in_part", other)
    others = [domain for domain in alone[0].domains if domain != target]
    if any(domain not in validation for domain in others):
        return None
    return _selected(alone[0], target, average([validation[domain] for domain in others]))


def _oracle(records: Sequence[Record], target: str) -> SelectedModel | None:
    last = max(reversed(_alone(records)), key=lambda record: record.step, default=None)
    return None if last is None else _selected(last, target, _accuracy(last, "out_part", target))


def _alone(records: Sequence[Record]) -> list[Record]:
    """Those in which the target is the only domain held out."""
    return [record for record in records if len(record.held_out) == 1]


def _selected(record: Record, target: str, score: float) -> SelectedModel:
    accuracy = _accuracy(record, "in_part", target)
    return SelectedModel(accuracy, record.step, record.hyperparameters, score, record.settings)


def _accuracy(record: Record, part: str, domain: str) -> float:
    found: Mapping[str, float] = getattr(record, part)
    if domain not in found:
        run = f"{record.algorithm} on {record.data_set}, {' and '.join(record.held_out)} held out"
        where = f"trial {record.trial}, hyper-parameters {record.hyperparameters}, step {record.step}"
        raise InputError(f"this selection needs {part} of {domain}, which is not recorded for {run}, {where}")
    return found[domain]


SELECTIONS: Mapping[str, Selection] = {
    "training-domain": Selection(
        "training-domain",
        "training-domain validation: the step and hyper-parameters with the highest mean accuracy over the source "
        "domains, each on its held-out images",
        "a run with the target alone held out",
        _training_domain,
    ),
    "leave-one-domain-out": Selection(
        "leave-one-domain-out",
        "leave-one-domain-out cross-validation: the step and hyper-parameters with the highest mean accuracy over "
        "the other domains, each on its in part in a run that held it out beside the target",
        "one run with the target alone held out and, checked at the same steps, runs with the target and each of "
        "the other domains held out",
        _leave_one_domain_out,
    ),
    "oracle": Selection(
        "oracle",
        "oracle, which uses labels of the target: the last step of the hyper-parameters with the highest accuracy "
        "on the target's out part",
        "a run with the target alone held out",
        _oracle,
    ),
}
"""Name → selection. The first two know nothing of the target."""
