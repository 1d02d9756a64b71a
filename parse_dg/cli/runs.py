"""The commands that look at runs and around: evaluate, compact, demo, info, algorithms."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, add_model, opened

if TYPE_CHECKING:
    from rich.console import Console


def evaluate(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg evaluate`."""
    from parse_dg.cli.show.display import print_accuracies
    from parse_dg.runs.opened import evaluate_run

    print_accuracies(console, evaluate_run(opened(options), options.domain))


def compact(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg compact`."""
    from rich.console import Console

    from parse_dg.cli.show.display import compact_with_display, print_compactions

    bars = console if options.format == "text" else Console(stderr=True)  # a table alone on standard output
    outcomes = compact_with_display(options.runs, options.out, options.threshold, options.device, bars)
    print_compactions(console, outcomes, options.format)


def demo(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg demo`."""
    from parse_dg.cli.demo import run_demo

    run_demo(options.out, console, target=options.target, seed=options.seed, steps=options.steps)


def info(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg info`."""
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
    for name, recipe in RECIPES.items():
        table.add_row(f"recipe {name}", (recipe.__doc__ or "").strip().splitlines()[0])
    for name, protocol in PROTOCOLS.items():
        table.add_row(f"protocol {name}", (protocol.__doc__ or "").strip().splitlines()[0])
    console.print(table)


def algorithms(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg algorithms`."""
    from rich.markup import escape
    from rich.table import Table

    from parse_dg.algorithms import ALGORITHMS

    table = Table()
    for heading in ("algorithm", "what it does", "published"):
        table.add_column(heading, overflow="fold")
    for name, method in ALGORITHMS.items():
        table.add_row(*map(escape, (name, method.summary, method.reference)))
    console.print(table)
    console.print("Train one with `parse-dg train --algorithm NAME`.")


def add_commands(commands: Commands) -> None:
    """Add the commands of this file."""
    _add_evaluate(commands)
    _add_compact(commands)
    _add_demo(commands)
    command = commands.add_parser("info", help="versions, devices, caches, algorithms and recipes")
    command.set_defaults(command=info)
    command = commands.add_parser(
        "algorithms", help="the methods that can be trained, and where they were published"
    )
    command.set_defaults(command=algorithms)


def _add_evaluate(commands: Commands) -> None:
    command = commands.add_parser(
        "evaluate",
        help="score a trained model on the domains of its benchmark",
        description="Score a run's model: on the target domain, and on the held-out images of the source domains.",
    )
    command.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    command.add_argument("--domain", metavar="DOMAIN", help="all images of this domain only")
    add_model(command)
    command.set_defaults(command=evaluate)


def _add_compact(commands: Commands) -> None:
    command = commands.add_parser(
        "compact",
        help="slice trained models of PARSE to the relations they use",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Drop every predicate application that no class uses, and write the small model, with its\n"
        "figures in a .json file of the same name.\n\n"
        "Both models predict every image of the benchmark first. At threshold 0 nothing may change: if a\n"
        "prediction does, or a logit by more than a millionth, nothing is written. Above 0, what changes is\n"
        "measured. Several runs give one table, a row a run.\n\n"
        "In use at the start are the applications that some class used before training: that the others were\n"
        "out of use then is the start's doing, not training's.",
        epilog="example:\n  parse-dg compact runs/blueprints/parse/*/seed0 --format markdown",
    )
    command.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder; several give one table")
    command.add_argument(
        "--threshold", type=float, default=0.0, metavar="T", help="drop weights up to T (default: 0, lossless)"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="for a single run (default: RUN/compact.safetensors)"
    )
    add_model(command)
    command.add_argument(
        "--format", choices=("text", "markdown", "csv"), default="text", help="of the table (default: text)"
    )
    command.set_defaults(command=compact)


def _add_demo(commands: Commands) -> None:
    command = commands.add_parser(
        "demo",
        help="ERM, No Relations and PARSE on Blueprints, compacted and explained in pictures",
        description="Train ERM, No Relations and PARSE on the embedded benchmark with one domain held out, compare "
        "them there, compact PARSE without changing a prediction, and draw what it learnt.",
    )
    command.add_argument("--out", type=Path, default=Path("demo"), metavar="FOLDER", help="default: demo")
    command.add_argument(
        "--target", default="sketch", metavar="DOMAIN", help="the domain that is held out (default: sketch)"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    command.add_argument("--steps", type=int, metavar="N", help="of each training (default: the recipe's)")
    command.set_defaults(command=demo, resumes=True)
