"""The commands that make runs and look at them: train, evaluate, compact, demo, info, algorithms."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parse_dg.algorithms import ALGORITHMS
from parse_dg.config import change
from parse_dg.data.catalogue import DATA_SETS
from parse_dg.data.library import added, domain_names, find_path
from parse_dg.errors import InputError
from parse_dg.experiments.config import RunConfig
from parse_dg.experiments.protocols import PROTOCOLS, apply_protocol
from parse_dg.experiments.recipes import RECIPES, build_config, default_recipe

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def train(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg train`."""
    from parse_dg.experiments.display import default_folder, print_result, run_with_display

    config = configure(options)
    folder = options.out or default_folder(config)
    result = run_with_display(config, folder, console)
    print_result(console, result, folder)


def evaluate(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg evaluate`."""
    from parse_dg.experiments.display import print_accuracies
    from parse_dg.experiments.evaluate import evaluate_run

    print_accuracies(console, evaluate_run(options.run, options.model, options.domain, options.device))


def compact(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg compact`."""
    from parse_dg.experiments.display import compact_with_display, print_compactions

    bars = console if options.format == "text" else Console(stderr=True)  # a table alone on standard output
    outcomes = compact_with_display(options.runs, options.out, options.threshold, options.device, bars)
    print_compactions(console, outcomes, options.format)


def demo(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg demo`."""
    from parse_dg.demo import run_demo

    run_demo(options.out, console, target=options.target, seed=options.seed, steps=options.steps)


def info(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg info`."""
    import torch

    from parse_dg.data.cache import cache_folder, data_folder
    from parse_dg.experiments.outcome import device_name, environment

    table = Table(show_header=False, box=None)
    for name, version in environment().items():
        table.add_row(name, version)
    devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    table.add_row("devices", ", ".join(device_name(torch.device(device)) for device in devices))
    table.add_row("threads", str(torch.get_num_threads()))
    table.add_row("cache", f"{cache_folder()} (set PARSE_DG_CACHE to move it)")
    table.add_row("data", f"{data_folder()} (set PARSE_DG_DATA to move it)")
    table.add_row("data sets", f"blueprints; {', '.join(DATA_SETS)}: see `parse-dg data list`")
    for name, (method, _) in ALGORITHMS.items():
        table.add_row(f"algorithm {name}", method.summary)
    for name, recipe in RECIPES.items():
        table.add_row(f"recipe {name}", (recipe.__doc__ or "").strip().splitlines()[0])
    for name, protocol in PROTOCOLS.items():
        table.add_row(f"protocol {name}", (protocol.__doc__ or "").strip().splitlines()[0])
    console.print(table)


def algorithms(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg algorithms`."""
    table = Table()
    for heading in ("algorithm", "what it does", "published"):
        table.add_column(heading, overflow="fold")
    for name, (method, _) in ALGORITHMS.items():
        table.add_row(*map(escape, (name, method.summary, method.reference)))
    console.print(table)
    console.print("Train one with `parse-dg train --algorithm NAME`.")


def configure(options: argparse.Namespace) -> RunConfig:
    """The recipe for the data, then the options, then the protocol, then every `--set`."""
    recipe = options.recipe or default_recipe(options.data)
    settings: dict[str, object] = {"data.benchmark": data_name(options.data), "seed": options.seed}
    if options.target is not None:
        settings["data.target"] = options.target
    elif options.data != "blueprints":
        names = ", ".join(domain_names(options.data))
        raise InputError(f"which domain is held out? Give --target, one of {names}")
    config = change(build_config(recipe, options.algorithm, options.data), settings)
    config = change(apply_protocol(options.protocol, config), parse_settings(options.set))
    return change(config, {"data.benchmark": data_name(config.data.benchmark)})


def data_name(data: str) -> str:
    """A data set's name as it is, a path made absolute: a run is repeated from wherever one stands."""
    path = None if data in ("blueprints", *added()) else find_path(data)
    return data if path is None else str(path)


def parse_settings(pairs: list[str]) -> dict[str, object]:
    """["training.steps=500"] → {"training.steps": "500"}."""
    settings: dict[str, object] = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise InputError(f"--set takes section.field=value, such as training.steps=500, found {pair!r}")
        settings[path] = value
    return settings


def add_commands(commands: "Commands") -> None:
    """Add the commands of this file."""
    _add_train(commands)
    _add_evaluate(commands)
    _add_compact(commands)
    _add_demo(commands)
    command = commands.add_parser("info", help="versions, devices, caches, algorithms and recipes")
    command.set_defaults(command=info)
    command = commands.add_parser(
        "algorithms", help="the methods that can be trained, and where they were published"
    )
    command.set_defaults(command=algorithms)


def _add_train(commands: "Commands") -> None:
    command = commands.add_parser(
        "train",
        help="train one algorithm with one domain held out",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Train one algorithm with one domain held out, and score it there at the very end.\n\n"
        "Every other domain is a source: 80% of its images train, 20% validate. The weights of the best\n"
        "validation step are kept. The target domain is read once, after training, unless the protocol\n"
        "records its accuracy on the way; nothing is chosen by it.",
        epilog="example:\n  parse-dg train --algorithm parse --target sketch --set training.steps=1500\n\n"
        "A run is a folder: config.json repeats it, metrics.jsonl follows it, model.safetensors is the\n"
        "model, result.json says which number is the result. The fields of `--set` are those of config.json.",
    )
    command.add_argument(
        "--algorithm", default="parse", metavar="NAME", help=f"{', '.join(ALGORITHMS)} (default: parse)"
    )
    command.add_argument(
        "--data",
        default="blueprints",
        metavar="DATA",
        help="a data set that was added (`parse-dg data list`), a folder domain/class/image, or a .csv or .json "
        "list (default: blueprints)",
    )
    command.add_argument(
        "--target", metavar="DOMAIN", help="the domain that is held out (of blueprints by default: sketch)"
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the hold-out and every draw (default: 0)"
    )
    command.add_argument(
        "--recipe",
        metavar="NAME",
        help=f"{', '.join(RECIPES)} (default: blueprints for blueprints, pretrained for anything else)",
    )
    command.add_argument(
        "--protocol",
        default="parse",
        metavar="NAME",
        help=f"{', '.join(PROTOCOLS)}: how long, checked how often, scored on which images (default: parse)",
    )
    command.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="change one field; repeatable"
    )
    command.add_argument("--out", type=Path, metavar="FOLDER", help="default: runs/DATA/ALGORITHM/TARGET/seedN")
    command.set_defaults(command=train)


def _add_evaluate(commands: "Commands") -> None:
    command = commands.add_parser(
        "evaluate",
        help="score a trained model on the domains of its benchmark",
        description="Score a run's model: on the target domain, and on the held-out images of the source domains.",
    )
    command.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    command.add_argument(
        "--model", type=Path, metavar="FILE", help="another model file, such as RUN/compact.safetensors"
    )
    command.add_argument("--domain", metavar="DOMAIN", help="all images of this domain only")
    command.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu or cuda (default: auto)")
    command.set_defaults(command=evaluate)


def _add_compact(commands: "Commands") -> None:
    command = commands.add_parser(
        "compact",
        help="slice trained models of PARSE to the relations they use",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Drop every predicate application that no class uses, and write the small model, with its\n"
        "figures in a .json file of the same name.\n\n"
        "Both models predict every image of the benchmark first. At threshold 0 nothing may change: if a\n"
        "prediction does, or a logit by more than a millionth, nothing is written. Above 0, what changes is\n"
        "measured. Several runs give one table, a row a run.",
        epilog="example:\n  parse-dg compact runs/blueprints/parse/*/seed0 --format markdown",
    )
    command.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder; several give one table")
    command.add_argument(
        "--threshold", type=float, default=0.0, metavar="T", help="drop weights up to T (default: 0, lossless)"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="for a single run (default: RUN/compact.safetensors)"
    )
    command.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu or cuda (default: auto)")
    command.add_argument(
        "--format", choices=("text", "markdown", "csv"), default="text", help="of the table (default: text)"
    )
    command.set_defaults(command=compact)


def _add_demo(commands: "Commands") -> None:
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
    command.set_defaults(command=demo)
