"""Runs on a Ray cluster: workers and nodes die, results are there exactly once."""

import os
import secrets
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from parse_dg.algorithms.erm import Erm
from parse_dg.config import to_dict
from parse_dg.errors import FailedError, InputError
from parse_dg.runs.folder import LOCK, hold
from parse_dg.runs.run import execute
from parse_dg.sweeps.jobs import Job, Outcome, read_progress
from parse_dg.sweeps.launchers import cluster as module
from parse_dg.sweeps.launchers.cluster import RayLauncher, perform, room_on
from parse_dg.sweeps.loop import Event, SweepStatus, run_sweep
from parse_dg.tables.selection_tables import selection_tables
from tests.conftest import Tiny
from tests.parts import refusal, stop_clock, wait_until
from tests.runs.helpers import quiet, read, read_runs, repeated

TARGETS = ("photo", "cartoon", "paint", "sketch")
needs_locks = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="Linux says who holds a lock")

# what needs no cluster


@pytest.mark.parametrize(
    ("resources", "gpus", "cpus", "room"),
    [
        ({"CPU": 8.0}, 0.0, 2, 4),
        ({"CPU": 8.0}, 1.0, 2, 0),
        ({"CPU": 8.0, "GPU": 2.0}, 1.0, 2, 2),
        ({"CPU": 64.0, "GPU": 2.0}, 0.25, 2, 8),
        ({"CPU": 64.0, "GPU": 2.0}, 0.4, 2, 4),  # two on each: a fifth of every GPU is left over
        ({"CPU": 3.0, "GPU": 2.0}, 0.25, 1, 3),
    ],
)
def test_room_is_counted_node_by_node(resources: dict[str, float], gpus: float, cpus: int, room: int) -> None:
    assert room_on(resources, gpus, cpus) == room


@pytest.mark.parametrize(
    ("gpus", "cpus", "slots", "found"),
    [(1.5, 1, None, "1.5"), (-1.0, 1, None, "-1.0"), (0.0, 0, None, "0"), (0.0, 1, 0, "0")],
)
def test_what_no_run_can_have_is_refused(gpus: float, cpus: int, slots: int | None, found: str) -> None:
    assert f"found {found}" in refusal(RayLauncher, "auto", gpus, cpus, slots)


def test_without_ray_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'parse-dg[ray]'" in refusal(RayLauncher, None, 0, 1)


def test_a_node_does_a_run_as_anybody_would(tiny: Tiny, erm_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert perform(to_dict(tiny("erm")), str(folder), module.__version__) == ("done", "")
    assert repeated(folder) == repeated(erm_run)
    assert perform(to_dict(tiny("erm")), str(folder), module.__version__) == ("done", "")


def test_what_would_fail_again_is_failed(tiny: Tiny, erm_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = Erm.losses
    monkeypatch.setattr(Erm, "losses", lambda *given: {k: v * float("nan") for k, v in losses(*given).items()})
    other, diverges = tiny("erm", seed=1), erm_run.with_name("diverges")
    for config, folder, why in ((other, erm_run, "another configuration"), (tiny("erm"), diverges, "not finite")):
        kind, reason = perform(to_dict(config), str(folder), module.__version__)
        assert (kind, why in reason, "\n" in reason) == ("failed", True, False)


def test_a_run_of_another_process_is_elsewhere(tiny: Tiny, tmp_path: Path) -> None:
    with hold(tmp_path / "run"):
        kind, reason = perform(to_dict(tiny("erm")), str(tmp_path / "run"), module.__version__)
    assert kind == "elsewhere"
    assert "another process" in reason


@pytest.mark.parametrize("here", ["alive", "gone"])
def test_while_nodes_die_starts_are_rare_and_without_the_own_one_there_are_none(
    here: str, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray, death = MagicMock(), type("NodeDiedError", (RuntimeError,), {})
    ray.exceptions.RayTaskError, ray.exceptions.RayError, ray.get.side_effect = LookupError, death, death
    ray.wait.side_effect = lambda tasks, **_: (tasks, [])
    ray.get_runtime_context().get_node_id.return_value = "here"
    ray.nodes.return_value = [
        {"NodeID": "here", "Alive": here == "alive", "Resources": {"CPU": 1}},
        {"NodeID": "there", "Alive": True, "Resources": {"CPU": 4}},
    ]
    now = [0.0]
    monkeypatch.setattr(module, "import_ray", lambda: ray)
    stop_clock(monkeypatch, module, lambda: now[0])
    launcher = RayLauncher("auto", 0, 1)
    pauses = []
    for _ in range(7):
        launcher.start(Job(tiny("erm"), tmp_path / "run"))
        if here == "gone":
            with pytest.raises(FailedError, match="Ray node of this machine is gone"):
                launcher.wait(1.0)
            return
        assert [outcome.reason for outcome in launcher.wait(1.0)] == ["its node died"]
        pauses.append(next(seconds for seconds in range(100) if waited(launcher, now, seconds)))
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


def waited(launcher: RayLauncher, now: list[float], seconds: int) -> bool:
    """Whether jobs may start again a second later, if not at once."""
    now[0] += bool(seconds)
    return launcher.slots == 5


# with a cluster of two nodes


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray, with a secret of these tests instead of the one that it would keep in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in module.QUIET.items():
            patch.setenv(name, value)
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield pytest.importorskip("ray", reason="the cluster needs Ray: pip install 'parse-dg[ray]'")


@pytest.fixture(scope="module")
def cluster(ray: Any) -> Iterator[Any]:
    """Two nodes of one CPU each; they take what is asked of them, whatever the machine has."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80_000_000, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args=small)
    found.add_node(num_cpus=1, num_gpus=0, object_store_memory=80_000_000)
    found.wait_for_nodes()
    yield found
    found.shutdown()


def process_at(folder: Path) -> int | None:
    """The process that holds a run's folder, and has come to train."""
    if not (folder / LOCK).exists() or not (folder / "metrics.jsonl").exists():
        return None
    lock = (folder / LOCK).stat()
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, _, _, process, place, *_ = line.split()
        if kind == "FLOCK" and int(place.rpartition(":")[2]) == lock.st_ino:
            return int(process)
    return None


def outcomes(launcher: RayLauncher, count: int) -> list[Outcome]:
    found: list[Outcome] = []
    wait_until(lambda: found.extend(launcher.wait(1.0)) or len(found) >= count)
    return found


Ends = Callable[..., list[Outcome]]


@pytest.fixture
def ends(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """ends(look, job): how jobs end on the cluster if a node does this instead of training."""

    def run(perform: Callable[..., tuple[str, str]], *jobs: Job, gpus: float = 0.0, **more: Any) -> list[Outcome]:
        monkeypatch.setattr(module, "perform", perform)
        launcher = RayLauncher(cluster.address, gpus, 1, **more)
        assert launcher.slots == 2
        for job in jobs:
            launcher.start(job)
        found = outcomes(launcher, len(jobs))
        launcher.stop()
        return found

    return run


@pytest.mark.slow
def test_a_run_has_the_environment_it_would_have_here(ends: Ends, tiny: Tiny, tmp_path: Path) -> None:
    def look(*given: object) -> tuple[str, str]:
        names = ("PARSE_DG_CACHE", "PARSE_DG_DATA", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
        return "failed", "|".join(os.environ.get(name, "unset") for name in names)

    (found,) = ends(look, Job(tiny("erm"), tmp_path / "run"))
    expected = (os.environ["PARSE_DG_CACHE"], os.environ["PARSE_DG_DATA"], "1", "")
    assert found.reason == "|".join(expected)


@pytest.mark.slow
def test_runs_share_a_gpu_but_no_process(cluster: Any, ends: Ends, tiny: Tiny, tmp_path: Path) -> None:
    def look(*given: object) -> tuple[str, str]:
        return "failed", f"{os.environ['CUDA_VISIBLE_DEVICES']} {os.getpid()}"

    node = cluster.add_node(num_cpus=4, num_gpus=1, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    found = ends(look, *(Job(tiny("erm"), tmp_path / str(number)) for number in range(4)), gpus=0.5)
    cluster.remove_node(node)
    seen = [outcome.reason.split() for outcome in found]
    assert [gpu for gpu, _ in seen] == ["0"] * 4
    assert len({process for _, process in seen}) == 4


@pytest.mark.slow
def test_an_error_nobody_foresaw_is_a_crash_with_its_traceback_kept(ends: Ends, tiny: Tiny, tmp_path: Path) -> None:
    def stumble(*given: object) -> tuple[str, str]:
        raise LookupError("over a stone\nand a half")

    job = Job(tiny("erm"), tmp_path / "erm" / "run")
    kept = tmp_path / "logs" / "erm" / "run.log"
    found = ends(stumble, job, logs=tmp_path / "logs")
    assert found == [Outcome(job, "crashed", f"LookupError: over a stone, see {kept}")]
    assert "in stumble" in kept.read_text()


@pytest.mark.slow
def test_a_result_that_is_not_seen_here_does_not_count(ends: Ends, tiny: Tiny, tmp_path: Path) -> None:
    (found,) = ends(lambda *given: ("done", ""), Job(tiny("erm"), tmp_path / "run"))
    assert found.kind == "crashed"
    assert "no result is seen" in found.reason


@pytest.mark.slow
def test_a_cluster_without_room_is_waited_for(
    cluster: Any, ray: Any, tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    launcher = RayLauncher(cluster.address, 0.5, 2)
    assert "no node of the cluster has 2 CPUs and 0.5 GPUs" in caplog.text
    assert launcher.slots == 1
    launcher.start(Job(tiny("erm"), tmp_path / "run"))
    assert list(launcher.wait(0.1)) == []
    launcher.stop()
    assert not ray.is_initialized()


@pytest.mark.slow
@needs_locks
def test_a_process_that_dies_is_a_crash_and_one_that_is_stopped_saves(
    cluster: Any, ray: Any, tiny: Tiny, tmp_path: Path
) -> None:
    launcher = RayLauncher(cluster.address, 0, 1)
    dies, stops = (Job(tiny("erm", seed=seed, training__steps=100_000), tmp_path / str(seed)) for seed in range(2))
    launcher.start(dies)
    launcher.start(stops)
    processes = [wait_until(lambda job=job: process_at(job.folder)) for job in (dies, stops)]
    assert processes[0] != processes[1]
    os.kill(processes[0], signal.SIGKILL)
    assert outcomes(launcher, 1) == [Outcome(dies, "crashed", "its process died")]
    wait_until(lambda: read_progress(stops).step)
    launcher.stop()
    assert not ray.is_initialized()
    assert process_at(stops.folder) is None
    assert any(path.name.startswith("checkpoint") for path in stops.folder.iterdir())
    assert not (stops.folder / "result.json").exists()
    with hold(stops.folder):
        pass


@needs_locks
@pytest.mark.slow
def test_16_runs_survive_a_worker_and_a_node(cluster: Any, tiny: Tiny, tmp_path: Path) -> None:
    jobs = [
        Job(
            tiny(method, seed=seed, data__target=target, training__steps=40, training__check_every=4),
            tmp_path / "blueprints" / method / target / f"seed{seed}",
        )
        for method in ("erm", "dann")
        for target in TARGETS
        for seed in range(2)
    ]
    launcher = RayLauncher(cluster.address, 0, 1)
    crashes: list[str] = []
    ended: Counter[Path] = Counter()
    slots: list[int] = []

    def strike(standing: SweepStatus, event: Event | None) -> None:
        """Kill a worker after 3 results, remove a node after 6, both in the middle of a run; add one after 11."""
        if event is not None:
            ended[event.job.folder] += event.kind in ("done", "found")
            crashes.extend([event.reason] if event.kind == "retried" else [])
            return
        processes = [process_at(job.folder) for job in standing.running if read_progress(job).step < 30]
        if len(standing.done) >= 3 and not crashes and any(processes):
            os.kill(next(filter(None, processes)), signal.SIGKILL)
        if len(standing.done) >= 6 and crashes and not slots and len(processes) == 2 and all(processes):
            cluster.remove_node(next(iter(cluster.worker_nodes)))
            slots.append(launcher.slots)
        if len(standing.done) >= 11 and len(slots) == 1:
            cluster.add_node(num_cpus=1, num_gpus=0, object_store_memory=80_000_000)
            cluster.wait_for_nodes()
            slots.append(launcher.slots)

    report = run_sweep(jobs, launcher, strike)

    assert report.failed == ()
    assert set(crashes) == {"its process died", "its node died"}
    assert slots == [1, 2]
    assert sorted(job.folder for job in report.done) == sorted(job.folder for job in jobs)
    assert ended == Counter({job.folder: 1 for job in jobs})
    for outcome in report.retried:
        again = tmp_path / "again" / outcome.job.folder.relative_to(tmp_path)
        execute(outcome.job.config, again, quiet)
        assert repeated(outcome.job.folder) == repeated(again)
    folders = sorted(path.parent for path in (tmp_path / "blueprints").rglob("result.json"))
    assert folders == sorted(job.folder for job in jobs)
    (table,) = selection_tables(read_runs(folders, "training-domain"), "training-domain").tables
    assert table.runs == 16
    for method in ("erm", "dann"):
        for target in TARGETS:
            found = [read(path) for path in (tmp_path / "blueprints" / method / target).glob("*/result.json")]
            mean = sum(result["target"]["accuracy"] for result in found) / 2
            assert table.cells[method][target].mean == pytest.approx(mean)
            assert len(table.cells[method][target].values) == len(found) == 2


# Ray on this machine alone, or not at all


@pytest.mark.slow
def test_a_sweep_whose_own_raylet_is_gone_says_so(ray: Any, tiny: Tiny, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    launcher = RayLauncher(cluster.address, 0, 1)
    jobs = [Job(tiny("erm", seed=seed, training__steps=100_000), tmp_path / str(seed)) for seed in range(3)]
    events: list[str] = []

    def strike(standing: SweepStatus, event: Event | None) -> None:
        if event is None and process_at(jobs[0].folder) and "raylet" in cluster.head_node.all_processes:
            cluster.head_node.all_processes["raylet"][0].process.kill()
        events.extend([event.kind] if event else [])

    with pytest.raises(FailedError, match=r"Ray node of this machine is gone .*the same command, which goes on"):
        run_sweep(jobs, launcher, strike)
    assert events in (["started"], ["started", "retried", "started"])  # a process may be missed before the node is
    cluster.shutdown()


@pytest.mark.slow
def test_ray_on_this_machine_needs_no_cluster(ray: Any, tiny: Tiny, tmp_path: Path) -> None:
    assert "10,000 CPUs, which this machine does not have" in refusal(RayLauncher, None, 0, 10_000)
    assert not ray.is_initialized()
    job = Job(tiny("erm"), tmp_path / "run")
    report = run_sweep([job], RayLauncher(None, 0, 1, slots=1), lambda standing, event: None)
    assert report.done == (job,)
    assert not ray.is_initialized()


@pytest.mark.slow
def test_an_address_where_nobody_listens_is_said_at_once(ray: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "somewhere", ""):
        with pytest.raises(InputError, match=r"no Ray cluster at .*expected auto, host:port"):
            RayLauncher(address, 0, 1)
