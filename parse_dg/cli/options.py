"""What commands share: how they and what they take are declared, and lines to the terminal.

Modules of commands import what needs torch, numpy or rich inside their functions, so that `--help` answers at once;
a default that is written there is tested to be that of the code.
"""

import argparse
import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console as Console

    from parse_dg.data.listing import Progress
    from parse_dg.runs.afterwards.opened import OpenedRun

    Commands = argparse._SubParsersAction["Command"]
else:
    Commands, Console = argparse._SubParsersAction, object

SELECTION_NAMES = "training-domain, leave-one-domain-out, oracle"
KINDS = {"N": int, "FILE": Path, "FOLDER": Path, "RUN": Path}
"""The type of what is called so in the help; anything else is text."""
EXAMPLES = "\n\nFor example:\n"
"""Begins that part of a docstring that `--help` shows below the options."""


class Command(ArgumentParser):
    """A command, or the program itself."""

    def __init__(self, *given: Any, **more: Any) -> None:
        more["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(*given, **more)
        self.section: argparse._ActionsContainer = self
        """Below which heading of the help `add` adds."""

    def add(self, name: str, words: str = "", default: Any = None, **more: Any) -> None:
        """Take something: `run RUN`, by its place; `--seed N`, an option; `--replace`, a switch.

        A default is said in the help, and gives the type. Of `choices` the first is the default. What is `many`
        can be given several times.
        """
        name, _, takes = name.partition(" ")
        if "choices" in more:
            default = more["choices"][0]
        if default is not None and "default" not in words:
            said = f"default: {default:g}" if isinstance(default, float) else f"default: {default}"
            words = f"{words} ({said})" if words else said
        if more.pop("many", False):
            words, default = f"{words}; repeatable", []
            more["action"] = "append"
        if takes:
            kind = type(default) if isinstance(default, int | float) else KINDS.get(takes, str)
            more = {"type": kind, "metavar": takes, "default": default} | more
        elif "choices" in more:
            more["default"] = default
        else:
            more.setdefault("action", "store_true")
        self.section.add_argument(name, help=words, **more)

    def add_format(self, *choices: str) -> None:
        """How answers are written; the first is the default."""
        words = "in csv what a spreadsheet would take for a formula has an apostrophe before it, in csv-raw not"
        self.add("--format", words, choices=choices)

    def add_run(self, words: str = "the run's folder, or a model file") -> None:
        """The run that is asked about."""
        self.add("run RUN", words)

    def add_device(self) -> None:
        """Where it computes."""
        self.add("--device NAME", "auto, cpu, cuda or mps", "auto")

    def add_model(self) -> None:
        """Of the models of a run, one, and where it computes: what `opened` opens."""
        self.add("--model FILE", "another model file, such as RUN/compact.safetensors")
        self.add_device()

    def add_selection(self, spread: str) -> None:
        """How a model is chosen, and what stands after ±."""
        self.add("--selection NAME", SELECTION_NAMES, "training-domain")
        self.add("--spread NAME", spread, "se")


def add_command(
    commands: Commands, name: str, run: Callable[[Namespace, Any], None], words: str, *, resumes: bool = False
) -> Command:
    """A command, which is explained by the docstring of the function that runs it.

    `resumes`: given again, it goes on where it was broken off.
    """
    about, _, examples = cleandoc(run.__doc__ or "").partition(EXAMPLES)
    epilog = f"for example:\n{examples}" if examples else None
    command = commands.add_parser(name, help=words, description=about, epilog=epilog)
    command.set_defaults(command=run, resumes=resumes)
    return command


def add_group(commands: Commands, name: str, words: str, about: str = "", examples: str = "") -> Commands:
    """A command that consists of commands."""
    group = commands.add_parser(name, help=words, description=about, epilog=examples)
    hint = f"`parse-dg {name} COMMAND --help` explains each"
    return group.add_subparsers(title="commands", required=True, metavar="COMMAND", help=hint)


def opened(options: Namespace, progress: "Progress | None" = None) -> "OpenedRun":
    """The run that is asked about, with the model and on the device that `add_model` takes."""
    from parse_dg.runs.afterwards.opened import OpenedRun

    return OpenedRun(options.run, model=options.model, device=options.device, progress=progress)


def say(console: Console, *lines: str) -> None:
    """Lines as they are, however long: a name in them may hold brackets, and a path is to be copied whole."""
    for line in lines:
        console.print(line, markup=False, emoji=False, soft_wrap=True)


def print_json(console: Console, data: Any) -> None:
    """JSON in ASCII: valid whatever the terminal's encoding and the names in it."""
    console.out(json.dumps(data, indent=2, allow_nan=False), highlight=False)
