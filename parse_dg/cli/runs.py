"""The commands that look at runs and around: compact, demo, info, algorithms."""

from argparse import Namespace
from pathlib import Path

from parse_dg.cli.options import Commands, Console, add_command, say

DEMO_STEPS = 900
"""The fewest hundreds with which both methods reach 85% of source validation (docs/results.md)."""


def compact(options: Namespace, console: Console) -> None:
    """Drop every predicate application that no class uses, and write the small model, with its
    figures in a .json file of the same name.

    Both models predict every image of the benchmark first. At threshold 0 nothing may change: if a
    prediction does, or a logit by more than a millionth, nothing is written. Above 0, what changes is
    measured. Several runs give one table, a row a run.

    In use at the start are the applications that some class used before training: that the others were
    out of use then is the start's doing, not training's.

    For example:
      parse-dg compact runs/blueprints/parse/*/seed0 --format markdown
    """
    from parse_dg.cli.show.display import compact_with_display, print_compactions

    bars = console if options.format == "text" else None  # a table alone on standard output
    outcomes = compact_with_display(options.runs, options.out, options.threshold, options.device, bars)
    print_compactions(console, outcomes, options.format)


def demo(options: Namespace, console: Console) -> None:
    """Train No Relations and PARSE on the embedded benchmark with one domain held out, compare
    them there, compact PARSE without changing a prediction, and draw what it learnt.
    """
    from parse_dg.cli.demo import run_demo

    run_demo(options.out, console, target=options.target, seed=options.seed, steps=options.steps)


def info(options: Namespace, console: Console) -> None:
    """Print versions, devices, caches, algorithms and recipes."""
    import torch
    from rich.table import Table

    from parse_dg.algorithms import ALGORITHMS
    from parse_dg.data.public.catalogue import DATA_SETS
    from parse_dg.devices import device_names
    from parse_dg.files import cache_folder, data_folder
    from parse_dg.plugins import installed_plugins
    from parse_dg.registry import Registry
    from parse_dg.runs.protocols import PROTOCOLS
    from parse_dg.runs.recipes import RECIPES
    from parse_dg.runs.scoring import environment

    table = Table(show_header=False, box=None)
    for name, version in environment().items():
        table.add_row(name, version)
    table.add_row("devices", ", ".join(device_names()))
    table.add_row("threads", str(torch.get_num_threads()))
    table.add_row("cache", f"{cache_folder()} (set PARSE_DG_CACHE to move it)")
    table.add_row("data", f"{data_folder()} (set PARSE_DG_DATA to move it)")
    table.add_row("data sets", f"blueprints; {', '.join(DATA_SETS)}: see `parse-dg data list`")
    for name, method in ALGORITHMS.items():
        if ALGORITHMS.origin(name) is None:
            table.add_row(f"algorithm {name}", method.summary)
    for kind, registry in Registry.kinds.items():
        for name in registry:
            if registry.origin(name) is not None:
                table.add_row(f"{kind} {name}", f"of the plug-in {registry.origin(name)}")
    for name, plugin in installed_plugins().items():
        table.add_row(f"plug-in {name}", f"{plugin.value}: pass --plugin {name} to use it")
    for kind, several in (("recipe", RECIPES), ("protocol", PROTOCOLS)):
        for name, each in several.items():
            first, *_ = (each.__doc__ or "").split("\n\n")  # a sentence may go on in a second line
            table.add_row(f"{kind} {name}", " ".join(first.split()))
    console.print(table)


def algorithms(options: Namespace, console: Console) -> None:
    """List the methods that can be trained, and where they were published."""
    from parse_dg.algorithms import ALGORITHMS
    from parse_dg.cli.show.tables import print_rows

    rows = [(name, method.summary, method.reference) for name, method in ALGORITHMS.items()]
    print_rows(console, ("algorithm", "what it does", "published"), rows, names=3)
    say(console, "Train one with `parse-dg train --algorithm NAME`.")


def add_commands(commands: Commands) -> None:
    """Add the commands of this file."""
    command = add_command(commands, "compact", compact, "slice trained models of PARSE to the relations they use")
    command.add("runs RUN", "a run's folder; several give one table", nargs="+")
    command.add("--threshold T", "drop weights up to T; 0 is lossless", 0.0)
    command.add("--out FILE", "for a single run (default: RUN/compact.safetensors)")
    command.add_device()
    command.add_format("text", "markdown", "csv", "csv-raw")
    words = "No Relations and PARSE on Blueprints, compared, compacted and explained in pictures"
    command = add_command(commands, "demo", demo, words, resumes=True)
    command.add("--out FOLDER", "", Path("demo"))
    command.add("--target DOMAIN", "the domain that is held out", "photo")
    command.add("--seed N", "", 0)
    command.add("--steps N", "of each training", DEMO_STEPS)
    add_command(commands, "info", info, "versions, devices, caches, algorithms and recipes")
    add_command(commands, "algorithms", algorithms, "the methods that can be trained, and who published them")
