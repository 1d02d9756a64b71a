"""Runs on a cluster, through Ray: every job is a task on whichever node has room for it.

Needed on every node: the same parse-dg, and the folder of the sweep, and those of plug-ins, under the same paths
(a shared file system).
Only plain data crosses the network: the configuration as JSON has it, the folder's path, how it ended.

A task that dies with its worker or its node is not repeated by Ray. It is reported as crashed, and the sweep
starts it again: it counts the attempts and shows them, wherever jobs run; and the second attempt goes on from the
checkpoint that the first left in the folder. Repeated by both, a run would be tried more often than was asked for.
"""

import importlib
import logging
import os
import platform
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from parse_dg._version import __version__
from parse_dg.config import from_dict, require, to_dict
from parse_dg.errors import BusyError, FailedError, InputError
from parse_dg.files import attempting
from parse_dg.plugins import handed_on, load_plugins
from parse_dg.runs.config import RunConfig
from parse_dg.runs.run import execute
from parse_dg.sweeps.jobs import HANDED_ON, Job, Outcome, log_path
from parse_dg.training.check import NonFiniteLossError
from parse_dg.wording import first_line, plural

log = logging.getLogger(__name__)

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
"""Ray neither reports what it is used for, nor writes the messages of its nodes over the display of the sweep."""
GRACE = 60.0
"""Seconds that an interrupted run has to end by itself."""
DEATHS = {
    "WorkerCrashedError": "its process died",
    "NodeDiedError": "its node died",
    "LocalRayletDiedError": "its node died",
    "OutOfMemoryError": "its process was ended, as the node ran out of memory",
    "TaskCancelledError": "it was cancelled",
    "OwnerDiedError": "the connection to the cluster was lost",
}
LOST = ("NodeDiedError", "LocalRayletDiedError", "OwnerDiedError")
"""Deaths that no run is the cause of: what is started next may meet the same."""
LONGEST_PAUSE = 60.0


class RayLauncher:
    """Runs jobs on a Ray cluster."""

    def __init__(
        self,
        address: str | None,
        gpus_per_run: float,
        cpus_per_run: int,
        slots: int | None = None,
        logs: Path | None = None,
        track: Sequence[str] = (),
    ) -> None:
        """`address`: `auto`, host:port or ray://host:port of a cluster; None starts Ray on this machine alone.

        `gpus_per_run` may be a fraction: that many runs share a GPU. `slots` is how many jobs it takes at a time;
        None is what the cluster has room for at the moment, so that nodes that join are used. `logs` is the folder
        for the tracebacks of runs that crash. `track`: trackers of every run.
        """
        whole = gpus_per_run <= 1 or float(gpus_per_run).is_integer()
        require(gpus_per_run >= 0 and whole, "GPUs per run", gpus_per_run, "a fraction of 1, or a whole number")
        require(cpus_per_run >= 1, "CPUs per run", cpus_per_run, "1 or more")
        require(slots is None or slots >= 1, "jobs at a time", slots, "1 or more")
        self._gpus, self._cpus, self._slots, self._logs = float(gpus_per_run), cpus_per_run, slots, logs
        self._track = list(track)
        self._ray = import_ray()
        self._stopped = False
        self._lost, self._start_at = 0, 0.0
        """How many nodes died since a run last ended by itself, and when the next may start."""
        self._own = not self._ray.is_initialized()
        if self._own:
            connect(self._ray, address)
        self._running: dict[Any, Job] = {}
        given = {name: os.environ[name] for name in (*HANDED_ON, "OMP_NUM_THREADS") if name in os.environ}
        hidden = {} if self._gpus else {"CUDA_VISIBLE_DEVICES": ""}  # a run that asks for no GPU sees none
        self._task = self._ray.remote(
            num_cpus=self._cpus,
            num_gpus=self._gpus,
            max_retries=0,
            retry_exceptions=False,
            max_calls=1 if self._gpus else 0,  # a process that lives on would keep memory of the GPU
            runtime_env={"env_vars": {"OMP_NUM_THREADS": str(self._cpus)} | hidden | given},
        )(perform)
        if not self._room():
            self._no_room(may_join=address is not None)

    @property
    def slots(self) -> int:
        """How many jobs it takes at a time; at least one, so that a cluster that grows on demand sees demand, but
        none for a while after a node has died.
        """
        if self._stopped or time.monotonic() < self._start_at:
            return 0
        return self._slots or max(1, self._room())

    def start(self, job: Job) -> None:
        """Hand a job to the cluster, which starts it as soon as a node has room."""
        folder = job.folder.absolute()
        with attempting(f"write to {folder.parent}"):
            folder.parent.mkdir(parents=True, exist_ok=True)  # its absence tells a node that it does not share it
        task = self._task.remote(to_dict(job.config), str(folder), __version__, self._track, handed_on())
        self._running[task] = job

    def wait(self, seconds: float) -> Sequence[Outcome]:
        if not self._running:
            time.sleep(seconds)
            return ()
        self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        ended, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [self._outcome(task) for task in ended]

    def stop(self) -> None:
        """Interrupt everything that still runs, end what does not stop by itself, and leave the cluster."""
        for force in (False, True):
            tasks = list(self._running)
            for task in tasks:
                self._ray.cancel(task, force=force)
            if tasks:
                ended, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=GRACE)
                for task in ended:
                    del self._running[task]
        self._running.clear()
        if self._own and not self._stopped:
            self._ray.shutdown()
        self._stopped = True

    def _outcome(self, task: Any) -> Outcome:
        job = self._running.pop(task)
        try:
            kind, reason = self._ray.get(task)
            self._lost = 0
        except self._ray.exceptions.RayTaskError as error:
            reason = f"{type(error.cause).__name__}: {first_line(error.cause)}"
            return Outcome(job, "crashed", reason + self._keep(job, str(error)))
        except self._ray.exceptions.RayError as error:
            if type(error).__name__ in LOST:
                self._back_off()
            return Outcome(job, "crashed", DEATHS.get(type(error).__name__) or first_line(error))
        if kind == "done" and not (job.folder / "result.json").exists():
            return Outcome(job, "crashed", f"a node has ended it, but no result is seen in {job.folder} from here")
        return Outcome(job, kind, reason)

    def _back_off(self) -> None:
        """Wait before the next start, twice as long each time; raise if this process can start nothing any more."""
        self._lost += 1
        self._start_at = time.monotonic() + min(LONGEST_PAUSE, 2.0**self._lost)
        here = self._ray.get_runtime_context().get_node_id()
        if not any(node["NodeID"] == here and node["Alive"] for node in self._ray.nodes()):
            again = "start Ray again (`ray start`), then give the same command, which goes on"
            raise FailedError(f"the Ray node of this machine is gone (its raylet has died): {again}")

    def _keep(self, job: Job, traceback: str) -> str:
        if self._logs is None:
            return ""
        path = log_path(self._logs, job)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f"{traceback}\n")
        except OSError as error:
            log.warning("cannot write to %s: %s", path, error.strerror or error)
            return ""
        return f", see {path}"

    def _room(self) -> int:
        nodes = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        return sum(room_on(node, self._gpus, self._cpus) for node in nodes)

    def _no_room(self, may_join: bool) -> None:
        """A cluster may grow, this machine does not."""
        wanted = plural(self._cpus, "CPU") + (f" and {self._gpus:g} GPUs" if self._gpus else "")
        if may_join:
            log.warning("no node of the cluster has %s for a run: waiting for one that does", wanted)
            return
        self.stop()
        raise InputError(f"a run was given {wanted}, which this machine does not have: give it less")


def room_on(resources: Mapping[str, float], gpus: float, cpus: int) -> int:
    """How many runs fit on a node; a run with a fraction of a GPU has it of one."""
    fit = int(resources.get("CPU", 0) // cpus)
    if gpus:
        here = resources.get("GPU", 0)
        fit = min(fit, int(here // gpus) if gpus >= 1 else int(here) * int(1 / gpus + 1e-9))
    return fit


def perform(
    config: dict[str, Any], folder: str, version: str, track: Sequence[str] = (), plugins: Sequence[str] = ()
) -> tuple[str, str]:
    """One run, on a node: how it ended, and why in one line. What is not foreseen is raised."""
    where = platform.node()
    if version != __version__:
        return "failed", f"{where} has parse-dg {__version__}, expected {version}: install the same on every node"
    if not Path(folder).parent.is_dir():
        return "failed", f"{where} does not see {Path(folder).parent}: choose a folder that all nodes share"
    try:
        load_plugins(plugins)
        execute(from_dict(RunConfig, config), Path(folder), lambda step, check: None, track=track)
    except BusyError as error:
        return "elsewhere", first_line(error)
    except (InputError, NonFiniteLossError) as error:
        return "failed", first_line(error)
    return "done", ""


def import_ray() -> ModuleType:
    """Ray, or one line on how to get it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("Ray is not installed: pip install 'parse-dg[ray]'") from error


def connect(ray: ModuleType, address: str | None) -> None:
    """Join the cluster at `address`, or start Ray on this machine."""
    alone = {"include_dashboard": False, "object_store_memory": 100_000_000}  # nothing large is ever stored
    options: dict[str, Any] = {} if address else alone
    try:
        if address not in (None, "auto"):
            knock(address)
        ray.init(address=address or "local", log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, RuntimeError, ValueError, ImportError, ray.exceptions.RayError) as error:
        if address is None:
            raise InputError(f"Ray does not start on this machine: {first_line(error)}") from error
        expected = "auto, host:port of a cluster that this machine is part of, or ray://host:port"
        raise InputError(f"no Ray cluster at {address!r}, expected {expected}: {first_line(error)}") from error


def knock(address: str) -> None:
    """Raise if nobody listens at `address`: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("there is no host and port in it")
    socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
