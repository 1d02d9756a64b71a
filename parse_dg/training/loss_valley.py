"""SWAD's decision: which stretches of a training run enter the average of its weights.

A segment is the stretch of steps between two checks; its loss is the validation loss at its end. The valley begins
where the loss has stopped falling and ends where it has risen past a threshold for good (Cha et al. 2021,
arXiv:2102.08604). Figures published with SWAD are of the authors' program, so that its ways are kept here, also
where they differ from the text:

- going back from the segment that was lowest, the one that follows the last above the threshold is left out;
- the segment that was lowest is counted twice;
- if the valley begins before `n_tolerance` checks were made, its first segments are counted several times.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parse_dg.training.checkpoint import require_numbers


class Segment(NamedTuple):
    """The steps from one check to the next."""

    number: int
    """0 is the first."""
    start: int
    end: int
    loss: float


PLAIN = ("next_start", "observed", "threshold", "left", "start_step", "end_step")
"""What of a valley's state is a single value."""


class LossValley:
    """Fed with every check of a run in turn, says which segments enter the average; some do so more than once."""

    def __init__(
        self, n_converge: int = 3, n_tolerance: int = 6, tolerance_ratio: float = 0.3, *, first_step: int = 1
    ):
        self.n_converge, self.n_tolerance, self.tolerance_ratio = n_converge, n_tolerance, tolerance_ratio
        self.next_start, self.observed = first_step, 0
        self.latest: deque[Segment] = deque(maxlen=n_converge)
        self.waiting: deque[Segment] = deque(maxlen=n_tolerance)
        self.lowest: Segment | None = None
        """Where the loss stopped falling."""
        self.threshold: float | None = None
        self.left = False
        """Whether the valley has been left: training may stop."""
        self.entered: list[int] = []
        """The numbers of the segments in the average, in the order they entered."""
        self.start_step: int | None = None
        self.end_step: int | None = None

    @property
    def converge_step(self) -> int | None:
        """The last step of the segment where the loss stopped falling."""
        return self.lowest.end if self.lowest else None

    @property
    def multiplicity(self) -> list[int]:
        times = Counter(self.entered)
        return [times[number] for number in range(self.observed)]

    @property
    def memory(self) -> int:
        """How many of the last segments may still be asked for."""
        return max(self.n_converge, self.n_tolerance)

    def observe(self, step: int, loss: float) -> list[int]:
        """A check after `step`: the numbers of the segments that enter the average now, in this order."""
        if self.left:
            return []
        segment = Segment(self.observed, self.next_start, step, loss)
        self.observed, self.next_start = self.observed + 1, step + 1
        self.latest.append(segment)
        self.waiting.append(segment)
        if self.lowest is None:
            return self._begin()
        oldest = self.waiting[0]
        if oldest.end < self.lowest.end:
            return []
        if self._lowest_waiting() > self._bound:
            self.left = True
            return []
        return self._enter([oldest])

    def finish(self) -> list[int]:
        """The run has ended: the numbers of the segments that enter the average still."""
        if self.lowest is None:
            return self._enter([self.latest[-1]])  # the loss was falling to the end: the last segment alone
        entering: list[int] = []
        if not self.left:
            self.waiting.popleft()
            while self.waiting and self._lowest_waiting() <= self._bound:
                segment = self.waiting.popleft()
                entering += self._enter([segment._replace(start=segment.end)])
        return entering if self.entered else self._enter([self.lowest])

    def state(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in PLAIN},
            "latest": list(self.latest),
            "waiting": list(self.waiting),
            "lowest": self.lowest,
            "entered": list(self.entered),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        counts = [state["next_start"], state["observed"], *state["entered"]]
        counts += [step for step in (state["start_step"], state["end_step"]) if step is not None]
        segments = [*state["latest"], *state["waiting"], *([state["lowest"]] if state["lowest"] else [])]
        losses = [loss for *_, loss in segments] + [state["threshold"]] * (state["threshold"] is not None)
        counts += [count for *three, _ in segments for count in three]
        require_numbers("a valley", counts, losses)
        if type(state["left"]) is not bool:
            raise ValueError("whether the valley was left is neither true nor false")
        for name in PLAIN:
            setattr(self, name, state[name])
        self.latest = deque((Segment(*values) for values in state["latest"]), maxlen=self.n_converge)
        self.waiting = deque((Segment(*values) for values in state["waiting"]), maxlen=self.n_tolerance)
        self.lowest = Segment(*state["lowest"]) if state["lowest"] else None
        self.entered = list(state["entered"])

    def _begin(self) -> list[int]:
        """If the oldest of the last `n_converge` losses is the lowest, the valley begins, before it."""
        losses = [segment.loss for segment in self.latest]
        if len(losses) < self.n_converge or int(np.argmin(losses)) > 0:
            return []
        self.lowest = self.latest[0]
        self.threshold = float(np.mean(losses)) * (1 + self.tolerance_ratio)
        ahead = self.n_tolerance - self.n_converge
        if ahead < 0:
            return self._enter(list(self.latest)[1 : 1 - ahead])
        if ahead == 0:
            return []
        before = list(self.waiting)[: ahead + 1]
        above = [place for place, segment in enumerate(before) if segment.loss > self._bound]
        return self._enter(before[above[-1] + 2 if above else 1 :])

    def _enter(self, segments: Sequence[Segment]) -> list[int]:
        entering = [segment.number for segment in segments]
        if segments:
            self.start_step = self.start_step if self.entered else segments[0].start
            self.end_step = segments[-1].end
        self.entered += entering
        return entering

    def _lowest_waiting(self) -> float:
        return min(segment.loss for segment in self.waiting)

    @property
    def _bound(self) -> float:
        assert self.threshold is not None
        return self.threshold
