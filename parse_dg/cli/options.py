"""What commands share: how they are declared, and lines to the terminal.

A command is a function, and its docstring is its help: a line for the list of commands, what it does, what it takes
(`Takes:`, see `Command.take`), examples (`For example:`). A name in braces stands for what its module, or `SHARED`,
calls so. The docstring of a module is the help of a group of commands in the same way.

Modules of commands import what needs torch, numpy or rich inside their functions, so that `--help` answers at once;
a default that is written there is tested to be that of the code.
"""

import argparse
import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console as Console

    from parse_dg.data.listing import Progress
    from parse_dg.runs.afterwards.opened import OpenedRun

    Commands = argparse._SubParsersAction["Command"]
else:
    Commands, Console = argparse._SubParsersAction, object

SELECTION_NAMES = "training-domain, leave-one-domain-out, oracle"
SHARED = {
    "CSV": "in csv what a spreadsheet would take for a formula has an apostrophe before it, in csv-raw not",
    "RUN": "run RUN  the run's folder, or a model file",
    "DEVICE": "--device NAME = auto  auto, cpu, cuda or mps",
    "MODEL": "--model FILE  another model file, such as RUN/compact.safetensors\n  {DEVICE}",
    "SELECTION": f"--selection NAME = training-domain  {SELECTION_NAMES}",
    "PLUGIN": "--plugin MODULE...  import a plug-in first: an installed one, a module, or a .py file "
    "(docs/extend.md); repeatable",
}


def some_path(text: str) -> Path:
    """A path; nothing is not taken for the current folder, as a variable of the shell may be unset."""
    if not text.strip():
        raise ArgumentTypeError("expected a path, found nothing")
    return Path(text)


KINDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("N", "K"), int),
    **dict.fromkeys(("F", "P", "R", "S", "T", "CELLS", "MB", "MS", "SECONDS"), float),
    **dict.fromkeys(("FILE", "FOLDER", "RUN"), Path),
    "PATH": some_path,
}
"""The type of what is called so in the help; anything else is text."""
TAKEN = re.compile(r"(\S+?)(?: ([^ =]\S*?))?(\.\.\.|[+*?])?(?: = (.*?))?(?: -> (\w+))?")


class Command(ArgumentParser):
    """A command, or the program itself."""

    def __init__(self, *given: Any, **more: Any) -> None:
        more["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(*given, **more)
        self.section: argparse._ActionsContainer = self
        """Below which heading of the help `take` adds."""

    def take(self, line: str) -> None:
        """A line of `Takes:`, two blanks before its words: `run RUN`, by its place; `--seed N = 0`, an option
        with a default; `--replace`, a switch; `--format = text json`, one of these; `where it runs:`, a heading.

        `IMAGE+`, `IMAGE*`, `IMAGE?`: some of them, any number, perhaps one (an option alone: `all`).
        `--set FIELD=VALUE...`: several times. `-> name`: what it is called in the code.
        """
        spec, _, words = line.partition("  ")
        if line.endswith(":"):
            self.section = self.add_argument_group(line.removesuffix(":"))
            return
        name, takes, count, default, dest = TAKEN.fullmatch(spec).groups()  # type: ignore[union-attr]
        more: dict[str, Any] = {"help": words.strip()} | ({"dest": dest} if dest else {})
        kind = KINDS.get(takes, str)
        if takes:
            more |= {"metavar": takes, "type": kind, "default": kind(default) if default else None}
        elif default:
            more |= {"choices": default.split(), "default": default.split()[0]}
        else:
            more["action"] = argparse.BooleanOptionalAction if name.startswith("--[no-]") else "store_true"
        if default and "default" not in words:
            more["help"] = f"{words.strip()} (default: {default.split()[0]})".strip()
        if count == "...":
            more |= {"action": "append", "default": []}
        elif count:
            more["nargs"] = count
            if name.startswith("--"):
                more |= {"const": "all"} if count == "?" else {"default": ()}
        self.section.add_argument(name.replace("[no-]", ""), **more)


class Declared(NamedTuple):
    """A command that is declared."""

    run: Callable[[Namespace, Any], None]
    doc: str
    module: ModuleType
    resumes: bool
    """Given again, it goes on where it was broken off."""
    plugins: bool

    def add_to(self, commands: Commands, name: str) -> None:
        takes, command = _add(commands, name, self.doc, vars(self.module))
        for line in takes:
            command.take(line)
        command.section = command
        if self.plugins:
            command.take(SHARED["PLUGIN"])
        command.set_defaults(command=self.run, resumes=self.resumes)

    def add_group(self, commands: Commands, name: str) -> Commands:
        """Add the group that it is in: what its module says is the help of that."""
        _, group = _add(commands, name, self.module.__doc__ or "", {})
        hint = f"`parse-dg {name} COMMAND --help` explains each"
        return group.add_subparsers(title="commands", required=True, metavar="COMMAND", help=hint)


DECLARED: dict[str, Declared] = {}
"""Every command by its words, such as `data add`."""


def command(words: str, doc: str = "", *, resumes: bool = False, plugins: bool = True) -> Callable[[Any], Any]:
    """Declare a function to be a command; `doc`: its help, where that is not its docstring."""

    def declare(run: Any) -> Any:
        DECLARED[words] = Declared(run, doc or run.__doc__, sys.modules[run.__module__], resumes, plugins)
        return run

    return declare


def _add(commands: Commands, name: str, doc: str, names: dict[str, Any]) -> tuple[list[str], Command]:
    """A parser for a docstring, and the lines of what it takes."""
    names = names | {key: text.format_map(SHARED) for key, text in SHARED.items()}
    about, _, examples = cleandoc(doc).format_map(names).partition("\n\nFor example:\n")
    about, _, takes = about.partition("\n\nTakes:\n")
    summary, _, _ = about.partition("\n\n")
    words = f"{summary[0].lower()}{summary[1:].removesuffix('.')}"
    epilog = f"for example:\n{examples}" if examples else None
    parser = commands.add_parser(name, help=words, description=about, epilog=epilog)
    return re.sub(r"\n {4,}", " ", takes).replace("\n  ", "\n").strip().splitlines(), parser


def opened(options: Namespace, progress: "Progress | None" = None) -> "OpenedRun":
    """The run that is asked about, with the model and on the device that were asked for."""
    from parse_dg.runs.afterwards.opened import OpenedRun

    return OpenedRun(options.run, model=options.model, device=options.device, progress=progress)


def say(console: Console, *lines: str) -> None:
    """Lines as they are, however long: a name in them may hold brackets, and a path is to be copied whole."""
    for line in lines:
        console.print(line, markup=False, emoji=False, soft_wrap=True)


def print_json(console: Console, data: Any) -> None:
    """JSON in ASCII: valid whatever the terminal's encoding and the names in it."""
    console.out(json.dumps(data, indent=2, allow_nan=False), highlight=False)
