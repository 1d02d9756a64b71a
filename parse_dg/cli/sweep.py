"""`parse-dg sweep`: many runs from a file or preset, planned, run wherever there is room, put into a table."""

import argparse
import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, say
from parse_dg.cli.train import parse_settings
from parse_dg.errors import FailedError, InputError
from parse_dg.wording import plural

if TYPE_CHECKING:
    from parse_dg.sweeps.config import SweepConfig
    from parse_dg.sweeps.jobs import Job, Launcher
    from parse_dg.sweeps.launchers.local import Place

MEASURED_STEPS = 5
"""How many steps `--measure` times of each kind of run."""

ONLY = {
    "--per-gpu": ("local",),
    "--address": ("ray",),
    "--gpus-per-run": ("ray", "slurm"),
    "--cpus-per-run": ("ray", "slurm"),
    "--time": ("slurm",),
    "--partition": ("slurm",),
}
"""Options that not every launcher has."""


def sweep(options: Namespace, console: Console) -> None:
    """Plan many runs, say what they will cost, run those that are missing, and show their table.

    The file says which: data sets x targets x methods x seeds x hyper-parameters. What is finished is
    left as it is, a run that crashed is tried again and goes on where it was, so the same command goes on
    after whatever happened. It may also run in two terminals, or on two machines that share the folder.

    For example:
      parse-dg sweep my_sweep.toml --dry-run
      parse-dg sweep --preset paper-ablation --data blueprints
      parse-dg sweep my_sweep.toml --launcher ray --address auto --gpus-per-run 0.5

    A file as short as this will do:
      methods = ["erm", "parse"]
      seeds = [0, 1, 2]
    """
    from parse_dg.cli.show.sweep import print_report, sweep_display
    from parse_dg.sweeps.launchers.local import local_places
    from parse_dg.sweeps.loop import run_sweep
    from parse_dg.sweeps.plan import plan_jobs

    if options.list:
        list_presets(console)
        return
    check_options(options)
    chosen = configure(options)
    jobs = plan_jobs(chosen)
    places: tuple[Place, ...] = ()
    if options.launcher == "local":
        places = local_places(options.jobs, options.per_gpu, cpu=not needs_gpu(jobs), force=options.force)
    show_plan(options, console, jobs, len(places) or options.jobs or 1)
    if options.dry_run:
        return
    if all((job.folder / "result.json").exists() for job in jobs):
        show_results(options, console, jobs, chosen)
        return
    if options.launcher == "slurm":
        write_script(options, console, jobs, chosen.out)
        return
    launcher = build_launcher(options, jobs, places, chosen.out)
    with sweep_display(console, chosen.out) as observe:
        report = run_sweep(jobs, launcher, observe, options.retries)
    print_report(console, report)
    if report.done:
        show_results(options, console, report.done, chosen)
    if report.exit_code:
        raise FailedError(f"{len(report.failed)} of {plural(len(jobs), 'run')} failed, the others are done")


def configure(options: Namespace) -> "SweepConfig":
    """The file or the preset, then the options."""
    from parse_dg.sweeps.config import override
    from parse_dg.sweeps.file import read_sweep_file
    from parse_dg.sweeps.presets import preset_sweep

    settings = parse_settings(options.set)
    if options.file:
        chosen = read_sweep_file(options.file)
    else:
        chosen = preset_sweep(options.preset, options.data, defined="data.definitions" in settings)
    if options.out is not None:
        chosen = replace(chosen, out=options.out)
    if options.recipe is not None:
        chosen = replace(chosen, recipe=options.recipe)
    if options.seeds is not None:
        chosen = replace(chosen, seeds=parse_seeds(options.seeds))
    return override(chosen, settings)


def check_options(options: Namespace) -> None:
    """Raise if options do not go together, before anything is done."""
    from parse_dg.runs.tracking import require_trackers
    from parse_dg.sweeps.presets import PRESETS

    if (options.file is None) == (options.preset is None):
        raise InputError(f"give a file or --preset NAME, one of {', '.join(PRESETS)}; --list says what they are")
    if options.file and options.data:
        raise InputError(f"--data goes with --preset: what {options.file} runs on is said by its `data`")
    if options.retries < 0:
        raise InputError(f"--retries must be 0 or more, found {options.retries}")
    require_trackers(options.track)
    for name, launchers in ONLY.items():
        value = getattr(options, name.removeprefix("--").replace("-", "_"))
        if value is not None and options.launcher not in launchers:
            expected = " or ".join(launchers)
            raise InputError(f"{name} goes with --launcher {expected}, found --launcher {options.launcher}")


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0,1,2` → (0, 1, 2)."""
    try:
        return tuple(int(seed) for seed in text.split(","))
    except ValueError as error:
        raise InputError(f"--seeds must be whole numbers, such as 0,1,2, found {text!r}") from error


def show_plan(options: Namespace, console: Console, jobs: Sequence["Job"], slots: int) -> None:
    """What there is to run, what is finished already, what the rest will cost and how that is known."""
    from parse_dg.cli.show.sweep import print_plan
    from parse_dg.sweeps.cost import estimate_cost

    print_plan(console, jobs)

    def told(job: "Job") -> None:
        say(console, f"timing {MEASURED_STEPS} steps of {job.config.method}")

    measure = options.dry_run if options.measure is None else options.measure
    steps = MEASURED_STEPS if measure else 0
    cost = estimate_cost(jobs, below=Path("runs"), measure_steps=steps, told=told)
    say(console, *cost.lines(slots))
    if cost.unknown:
        say(console, "--measure times a few steps of each kind of run of which nothing is known")


def build_launcher(options: Namespace, jobs: Sequence["Job"], places: "Sequence[Place]", out: Path) -> "Launcher":
    """What the jobs are run by."""
    if options.launcher == "ray":
        from parse_dg.devices import visible_gpus
        from parse_dg.sweeps.launchers.cluster import RayLauncher

        gpus = options.gpus_per_run
        if gpus is None:
            gpus = float(needs_gpu(jobs) and bool(visible_gpus()))
        where = (options.address, gpus, options.cpus_per_run or 1, options.jobs)
        return RayLauncher(*where, out / ".sweep", options.track)
    from parse_dg.sweeps.launchers.local import LocalLauncher

    return LocalLauncher(places, out / ".sweep", track=options.track)


def write_script(options: Namespace, console: Console, jobs: Sequence["Job"], out: Path) -> None:
    """Scripts for SLURM, which the user looks through and hands in."""
    from parse_dg.sweeps.launchers.slurm import write_slurm

    script = write_slurm(
        jobs,
        out,
        gpus_per_run=float(needs_gpu(jobs)) if options.gpus_per_run is None else options.gpus_per_run,
        cpus_per_run=options.cpus_per_run or 1,
        time=options.time,
        partition=options.partition,
        at_most=options.jobs,
        track=options.track,
    )
    say(
        console,
        f"written to {script.parent}: look through it, then hand the runs in with",
        f"  bash {shlex.quote(str(script))}",
        "The same command as now shows the table once they are finished.",
    )


def needs_gpu(jobs: Sequence["Job"]) -> bool:
    """Whether some run takes a GPU where there is one."""
    return any(job.config.training.device != "cpu" for job in jobs)


def show_results(options: Namespace, console: Console, jobs: "Sequence[Job]", chosen: "SweepConfig") -> None:
    """The table that the preset is for, or that of the methods."""
    from parse_dg.cli.show.display import compact_with_display
    from parse_dg.cli.show.views import show_runs
    from parse_dg.sweeps.presets import find_preset
    from parse_dg.tables.published import find_name

    view = find_preset(options.preset).view if options.preset else "main"
    folders = [job.folder for job in jobs if (job.folder / "config.json").exists()]
    if view == "compaction":
        left = [folder for folder in folders if not (folder / "compact.json").exists()]
        if left:
            compact_with_display(left, None, 0.0, "auto", console)
    rules = {job.config.protocol.selection for job in jobs}
    rule = "leave-one-domain-out" if "leave-one-domain-out" in rules else min(rules)
    plot = chosen.out / "k.svg" if view == "k" and find_spec("matplotlib") else None
    by = () if options.preset else row_fields(chosen)
    known = options.preset and any(find_name(data.name) for data in chosen.data)
    compare = "paper" if known else None
    try:
        show_runs(folders, console, view=view, by=by, selection=rule, plot=plot, compare=compare)
    except InputError as error:  # all runs are done, whatever can be said of them together
        say(console, f"no table: {error}")


def row_fields(chosen: "SweepConfig") -> list[str]:
    """What the variants of a sweep differ in; not that a run has two results, whose methods tell them apart."""
    fields = {field for variant in chosen.variants for field in variant.settings}
    return sorted(fields - {"averaging.also_plain"})


def list_presets(console: Console) -> None:
    """`parse-dg sweep --list`."""
    from parse_dg.cli.show.tables import print_rows
    from parse_dg.sweeps.presets import PRESETS

    rows = [(name, preset.summary, ", ".join(preset.data)) for name, preset in PRESETS.items()]
    print_rows(console, ("preset", "what it makes", "the paper's data sets"), rows, names=3)
    say(console, "Run one with `parse-dg sweep --preset NAME`, on any other data with --data.")


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "many runs from one file or preset, resumable, with a table at the end"
    command = add_command(commands, "sweep", sweep, words, resumes=True)
    command.add("file FILE", "a sweep, in TOML", nargs="?")
    command.add("--preset NAME", "a table of the paper; --list names them")
    command.add("--list", "list the presets and exit")
    command.add("--data DATA", "what a preset runs on (default: the paper's data sets)")
    command.add("--recipe NAME", "instead of that of the file or preset (presets: paper, but on blueprints)")
    command.add("--seeds N,N", "instead of those of the file or preset, such as 0,1,2")
    command.add("--set FIELD=VALUE", "change one field of every run", many=True)
    command.add("--out FOLDER", "default: runs/NAME of the file or preset")
    command.add("--dry-run", "show the plan and its cost, and exit")
    words = "time a few steps of each kind of run of which no cost is known (default: in a dry run)"
    command.add("--measure", words, action=argparse.BooleanOptionalAction)
    command.add("--retries N", "how often a crashed run is tried again", 2)
    command.add("--track NAME", "for every run, as in `train`", many=True)
    command.section = command.add_argument_group("where it runs")
    words = "processes of this machine, a Ray cluster, or a script for SLURM to be handed in"
    command.add("--launcher", words, choices=("local", "ray", "slurm"))
    usual = "one a GPU; without GPUs, one for every two cores; on Ray, as many as fit"
    command.add("--jobs N", f"runs at a time (default: {usual})")
    command.add("--per-gpu N", "local: runs at a time on each GPU (default: 1)")
    command.add("--force", "local: more runs at a time than there are GPUs and cores")
    command.add("--address ADDRESS", "ray: a cluster, `auto` or host:port (default: one on this machine)")
    words = "ray, slurm: GPUs of each run, on Ray also a fraction (default: 1; on Ray 0 if this machine has none)"
    command.add("--gpus-per-run F", words, type=float)
    command.add("--cpus-per-run N", "ray, slurm: CPU cores of each run (default: 1)")
    command.add("--time TIME", "slurm: the limit of one attempt at a run, such as 12:00:00")
    command.add("--partition NAME", "slurm: where to run")
