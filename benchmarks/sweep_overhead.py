"""Wall time of 8 runs in a sweep ÷ that of the same 8 started by hand, two at a time.

    python -m benchmarks.sweep_overhead

By hand means what somebody would type: `parse-dg train ... &`, the next as soon as one has ended. Both orders are
measured, so that what warms up in the first does not count.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TARGETS, SEEDS, AT_A_TIME = ("photo", "cartoon", "sketch", "paint"), (0, 1), 2
SWEEP = 'methods = ["erm"]\nseeds = [0, 1]\n[set]\ntraining.steps = {steps}\ntraining.check_every = {steps}\n'
COMMAND = [sys.executable, "-m", "parse_dg"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def by_hand(folder: Path, steps: int) -> None:
    """Every run a process, two at a time."""
    runs = [(target, seed) for seed in SEEDS for target in TARGETS]
    running: list[subprocess.Popen[bytes]] = []
    while runs or running:
        running = [process for process in running if process.poll() is None]
        while runs and len(running) < AT_A_TIME:
            target, seed = runs.pop(0)
            options = ["--target", target, "--seed", str(seed), "--out", str(folder / target / str(seed))]
            options += ["--set", f"training.steps={steps}", "--set", f"training.check_every={steps}"]
            command = [*COMMAND, "train", "--algorithm", "erm", *options]
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT))
        time.sleep(0.01)


def in_a_sweep(folder: Path, steps: int) -> None:
    """The same by `parse-dg sweep`."""
    folder.mkdir()
    file = folder / "sweep.toml"
    file.write_text(SWEEP.format(steps=steps))
    command = [*COMMAND, "sweep", str(file), "--out", str(folder / "out"), "--jobs", str(AT_A_TIME)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)


def seconds(way: Callable[[Path, int], None], folder: Path, steps: int) -> float:
    started = time.perf_counter()
    way(folder, steps)
    taken = time.perf_counter() - started
    results = len(list(folder.rglob("result.json")))
    assert results == 8, f"expected 8 results, found {results}"
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of each run (default: 300)")
    steps = parser.parse_args().steps
    times: dict[str, list[float]] = {"by hand": [], "sweep": []}
    with tempfile.TemporaryDirectory() as name:
        seconds(by_hand, Path(name) / "warm-up", 1)
        for number, order in enumerate((("by hand", "sweep"), ("sweep", "by hand"))):
            for which in order:
                way = by_hand if which == "by hand" else in_a_sweep
                times[which].append(seconds(way, Path(name) / f"{which} {number}", steps))
                print(json.dumps({which: round(times[which][-1], 1)}), flush=True)
    print(json.dumps({"sweep ÷ by hand": round(sum(times["sweep"]) / sum(times["by hand"]), 3)}))


if __name__ == "__main__":
    main()
