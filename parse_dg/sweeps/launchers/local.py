"""Jobs as processes of this machine: one for every GPU, or several side by side on the CPU."""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from parse_dg.config import require, to_dict
from parse_dg.data.parallel import default_workers, require_room
from parse_dg.errors import EXIT_BUSY, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED, InputError
from parse_dg.files import attempting
from parse_dg.plugins import as_options, handed_on
from parse_dg.sweeps.jobs import Job, Outcome, log_path, read_tail
from parse_dg.sweeps.launchers import child
from parse_dg.wording import plural

log = logging.getLogger(__name__)

POLL = 0.05


Place = Mapping[str, str]
"""A GPU, or a share of the CPU, on which one job runs at a time: the variables of its process beside ours."""


def local_places(
    jobs: int | None = None, per_gpu: int | None = None, cpu: bool = False, *, force: bool = False
) -> tuple[Place, ...]:
    """Places for jobs on this machine: on its GPUs, or on the CPU if it has none or `cpu` is set.

    `jobs`: how many at a time; `per_gpu`: how many on each GPU. By default one a GPU, or one for
    every two cores; more than GPUs and cores only if that is forced.
    """
    require(jobs is None or jobs >= 1, "--jobs", jobs, "at least 1")
    require(per_gpu is None or per_gpu >= 1, "--per-gpu", per_gpu, "at least 1")
    from parse_dg.devices import visible_gpus

    gpus = () if cpu else visible_gpus()
    if jobs is not None or per_gpu is not None:
        asked = jobs or len(gpus) * (per_gpu or 1)
        require_room("--jobs" if jobs else "--per-gpu times GPUs", asked, devices=len(gpus), force=force)
    if not gpus:
        if per_gpu is not None:
            raise InputError("--per-gpu needs a GPU, and there is none to be used here: give --jobs N for the CPU")
        count = jobs or max(1, default_workers() // 2)
        return (_threads(count),) * count
    room = len(gpus) * (per_gpu or 1)
    if jobs is not None and jobs > room:
        raise InputError(f"--jobs must be at most {room} on {len(gpus)} GPUs, found {jobs}: give --per-gpu N too")
    count = jobs or room
    chosen = [gpus[number % len(gpus)] for number in range(count)]
    return tuple({"CUDA_VISIBLE_DEVICES": gpu} | _threads(count) for gpu in chosen)


def _threads(count: int) -> dict[str, str]:
    """The cores divided among processes, unless the user has said how."""
    return {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(1, default_workers() // count))}


class Child(NamedTuple):
    """A process at work on a job."""

    job: Job
    place: Place
    process: subprocess.Popen[bytes]
    log: Path
    start: int


class LocalLauncher:
    """A process for every job: `parse-dg train`, with the configuration on standard input and output in a log.

    The processes end with this one: after `stop`, or when this process is killed, they save where they are.
    """

    def __init__(
        self,
        places: Sequence[Place],
        logs: Path,
        *,
        track: Sequence[str] = (),
        module: str = "parse_dg",
        grace: float = child.GRACE,
    ) -> None:
        self.slots, self._free = len(places), list(reversed(places))
        self._logs, self._module, self._grace = logs, module, grace
        self._track = as_options(track, "--track")
        self._children: list[Child] = []
        self._pipe, self._held_open = os.pipe()
        self._open = True

    def start(self, job: Job) -> None:
        place = self._free.pop()
        path = self.log_of(job)
        with attempting(f"start a run with its log in {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as output, tempfile.TemporaryFile() as configuration:
                configuration.write(json.dumps(to_dict(job.config)).encode())
                configuration.seek(0)
                start = output.tell()
                process = subprocess.Popen(
                    self._command(job),
                    stdin=configuration,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=os.environ | dict(place),
                    pass_fds=(self._pipe,),
                    start_new_session=True,  # Ctrl-C is for this process, which then ends the others in order
                )
        self._children.append(Child(job, place, process, path, start))

    def wait(self, seconds: float) -> list[Outcome]:
        deadline = time.monotonic() + seconds
        while True:
            ended = [one for one in self._children if one.process.poll() is not None]
            if ended or time.monotonic() >= deadline:
                break
            time.sleep(POLL)
        for one in ended:
            self._children.remove(one)
            self._free.append(one.place)
        return [outcome(one) for one in ended]

    def stop(self) -> None:
        """Interrupt what still runs, so that it saves where it is; kill what has not ended after a while."""
        if self._open:
            self._open = False
            os.close(self._held_open)  # what every process waits for
            os.close(self._pipe)
        if self._children:
            log.warning("%s told to save and end", plural(len(self._children), "run"))
        deadline = time.monotonic() + self._grace
        try:
            for one in self._children:
                with suppress(subprocess.TimeoutExpired):
                    one.process.wait(max(0.0, deadline - time.monotonic()))
        finally:  # also when the user does not want to wait
            for one in self._children:
                if one.process.poll() is None:
                    os.killpg(one.process.pid, signal.SIGKILL)
                    one.process.wait()
            self._children.clear()

    def log_of(self, job: Job) -> Path:
        return log_path(self._logs, job)

    def _command(self, job: Job) -> list[str]:
        run = ["train", "--config", "-", "--out", str(job.folder), *self._track, *as_options(handed_on())]
        return [sys.executable, "-P", child.__file__, str(self._pipe), self._module, *run]


def outcome(ended: Child) -> Outcome:
    """How a process that has ended did: by its exit code, and by the end of what it said."""
    code = ended.process.returncode
    lines = [line.strip() for line in read_tail(ended.log, ended.start).splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("parse-dg: ")), "").removeprefix("parse-dg: ")
    last = lines[-1] if lines else "it said nothing"
    where = f"see {ended.log}"
    if code == 0:
        if (ended.job.folder / "result.json").exists():
            return Outcome(ended.job, "done")
        return Outcome(ended.job, "crashed", f"it ended without a result, {where}")
    if code == EXIT_BUSY:
        return Outcome(ended.job, "elsewhere", said)
    if code == EXIT_INPUT or (code == EXIT_FAILED and last.startswith("parse-dg: ")):
        return Outcome(ended.job, "failed", said or last)
    if code == EXIT_INTERRUPTED:
        return Outcome(ended.job, "crashed", "interrupted by somebody else")
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Outcome(ended.job, "crashed", f"killed by {name}, {where}")
    return Outcome(ended.job, "crashed", f"{last} (exit code {code}), {where}")
