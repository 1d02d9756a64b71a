"""A sweep as job arrays of SLURM: scripts that a person looks through and hands in.

Under FOLDER/.sweep: `submit.sh`, which hands in the arrays; `array-N.sh`, an array each, every element of which is
one `parse-dg train`; `configs/`, a configuration for every run; `logs/`, what every element says.

An array that waits in the queue is not changed by what is written later: SLURM keeps a copy of its script, the
script has the list of its runs, and a configuration is named after what is in it.
"""

import hashlib
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join, quote

from parse_dg.config import require, to_dict
from parse_dg.errors import InputError
from parse_dg.files import whole_file, write_json
from parse_dg.plugins import as_options, handed_on
from parse_dg.runs.folder import read_finished, writing_to
from parse_dg.sweeps.jobs import HANDED_ON, Job
from parse_dg.wording import plural

log = logging.getLogger(__name__)

LARGEST = 1000
"""Elements of an array: what SLURM takes unless it is configured otherwise."""
TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}")
PARTITION = re.compile(r"[\w.,-]+", re.ASCII)

BODY = r"""
config=${configs[$SLURM_ARRAY_TASK_ID]}
folder=${folders[$SLURM_ARRAY_TASK_ID]}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
printf '%s: %s\n' "$(date)" "$folder"

# USR1 comes shortly before the time is over: the run is told to save and end. TERM comes to the run as well as to
# this shell, which only has to wait for it.
run=
out_of_time=
trap 'out_of_time=yes; if [ -n "$run" ]; then kill -TERM "$run" 2>/dev/null; fi' USR1
trap : TERM

wait_for_run() {
  wait "$run"
  status=$?
  while kill -0 "$run" 2>/dev/null; do  # a signal ends the waiting, not the run
    wait "$run"
    status=$?
  done
}

# 3: another process is at the run, perhaps an earlier attempt on a node that has just been lost.
for attempt in 1 2 3 4 5; do
  "${train[@]}" --config "$config" --out "$folder" &
  run=$!
  wait_for_run
  if [ "$status" -ne 3 ]; then break; fi
  sleep 60 &
  wait $!
  if [ -n "$out_of_time" ]; then break; fi
done

# A preempted job is put into the queue again by SLURM, one that is out of time here; both go on from a checkpoint.
if [ "$status" -ne 0 ] && [ -n "$out_of_time" ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 100 ]; then
  echo "out of time: into the queue again"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
"""
"""What an element of an array does; before it come `train`, `configs` and `folders`."""
SUBMIT = r"""#!/bin/bash
# Hands the runs in. What is given to it goes to sbatch, such as --account=NAME.
set -eu
cd {place}
before=
for script in {names}; do
  job=$(sbatch --parsable ${{before:+"--dependency=afterany:$before"}} "$@" "$script")
  echo "$script: job $job"
{after}done
"""


def write_slurm(
    jobs: Sequence[Job],
    folder: Path,
    *,
    gpus_per_run: float = 1,
    cpus_per_run: int = 1,
    time: str | None = None,
    partition: str | None = None,
    at_most: int | None = None,
    track: Sequence[str] = (),
) -> Path:
    """Write what SLURM needs to run those of `jobs` that are not finished; returns `submit.sh`.

    `time` is SLURM's limit for one attempt at a run, such as 12:00:00; it may be shorter than a run takes.
    `at_most` is how many run at a time, `track` the trackers of every run.
    """
    _check(gpus_per_run, cpus_per_run, time, partition, at_most)
    missing = [job for job in jobs if read_finished(job.config, job.folder, large=False) is None]
    if not missing:
        raise InputError(f"there is nothing to hand in: {plural(len(jobs), 'run')}, all finished")
    place = folder.absolute() / ".sweep"
    options = {
        "job-name": "parse-dg",
        "output": "logs/%A_%a.log",  # submit.sh goes to its own folder, whose name may be anything
        "open-mode": "append",
        "requeue": None,
        "signal": "B:USR1@120",
        "ntasks": "1",
        "cpus-per-task": str(cpus_per_run),
        **({"gres": f"gpu:{int(gpus_per_run)}"} if gpus_per_run else {}),
        **({"time": time} if time else {}),
        **({"partition": partition} if partition else {}),
    }
    arrays = [missing[start : start + LARGEST] for start in range(0, len(missing), LARGEST)]
    with writing_to(place):
        for inner in ("configs", "logs"):
            (place / inner).mkdir(parents=True, exist_ok=True)
        for old in place.glob("array-*.sh"):
            old.unlink()
        names = [f"array-{number}.sh" for number in range(1, len(arrays) + 1)]
        for name, array in zip(names, arrays, strict=True):
            _write(place / name, _array_script(array, place / "configs", options, at_most, track))
        after = "" if at_most is None else "  before=${job%%;*}\n"  # only so many at a time: one after the other
        _write(place / "submit.sh", SUBMIT.format(place=quote(str(place)), names=join(names), after=after))
    if len(arrays) > 1:
        count = plural(len(missing), "run")
        log.warning("%s become %d arrays: SLURM takes up to %d in one", count, len(arrays), LARGEST)
    return place / "submit.sh"


def _check(
    gpus_per_run: float, cpus_per_run: int, time: str | None, partition: str | None, at_most: int | None
) -> None:
    whole = gpus_per_run >= 0 and float(gpus_per_run).is_integer()
    require(whole, "GPUs per run", gpus_per_run, "a whole number, as SLURM does not share a GPU between jobs")
    require(cpus_per_run >= 1, "CPUs per run", cpus_per_run, "1 or more")
    expected = "minutes, hours:minutes:seconds or days-hours"
    require(time is None or TIME.fullmatch(time) is not None, "the time limit", time, expected)
    named = partition is None or PARTITION.fullmatch(partition) is not None
    require(named, "the partition", partition, "a name, or several with commas between them")
    require(at_most is None or at_most >= 1, "runs at a time", at_most, "1 or more")


def _array_script(
    jobs: Sequence[Job], configs: Path, options: dict[str, str | None], at_most: int | None, track: Sequence[str]
) -> str:
    """The script of one array; writes the configurations it names."""
    elements = f"0-{len(jobs) - 1}" + (f"%{at_most}" if at_most else "")
    lines = ["#!/bin/bash"]
    for name, value in {"array": elements, **options}.items():
        lines.append(f"#SBATCH --{name}" if value is None else f"#SBATCH --{name}={value}")
    lines += ["", f"# {plural(len(jobs), 'run')}: element N is the Nth of each list."]
    lines += [f"export {name}={quote(os.environ[name])}" for name in HANDED_ON if name in os.environ]
    options_of_all = (*as_options(track, "--track"), *as_options(handed_on()))
    lines.append(f"train=({join([sys.executable, '-m', 'parse_dg', 'train', *options_of_all])})")
    lines += ["configs=(", *(f"  {quote(str(_write_config(job, configs)))}" for job in jobs), ")"]
    lines += ["folders=(", *(f"  {quote(str(job.folder.absolute()))}" for job in jobs), ")"]
    return "\n".join(lines) + "\n" + BODY


def _write_config(job: Job, configs: Path) -> Path:
    data = to_dict(job.config)
    path = configs / f"{hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]}.json"
    if not path.exists():
        write_json(path, data)
    return path


def _write(path: Path, text: str) -> None:
    with whole_file(path) as temporary:
        temporary.write_text(text, errors="surrogateescape")
        temporary.chmod(0o755)
