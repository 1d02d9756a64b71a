"""The command line: parses and calls, nothing else."""

import argparse
import io
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module

from parse_dg._version import __version__
from parse_dg.cli.options import Command
from parse_dg.errors import EXIT_BUSY, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED, BusyError, FailedError, InputError
from parse_dg.plugins import load_plugins
from parse_dg.wording import DIRECTION, UNPRINTABLE, escaped

PARTS = (
    *("train", "config", "trained.evaluate", "runs", "sweep", "data", "weights", "tables", "trained.describe"),
    *(
        f"trained.{name}"
        for name in ("predict", "explain", "name", "figure", "measure", "report", "serve", "export")
    ),
)
"""The modules of the commands, in the order of the help."""
PLUGGABLE = (
    *(
        "train",
        "sweep",
        "table",
        "evaluate",
        "predict",
        "explain",
        "name",
        "describe",
        "measure",
        "report",
        "compact",
    ),
    *("export", "serve", "figure", "config", "info", "algorithms"),
)
"""The commands that take `--plugin`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 1 the run failed, 2 what was given cannot be used, 3 another process is at the run,
    130 interrupted.
    """
    logging.basicConfig(level=logging.WARNING, format="parse-dg: %(message)s")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file may have a name that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            keep_direction(stream)
    options = build_parser().parse_args(arguments)
    from rich.console import Console  # not before --help has been answered

    try:
        with ended_by_sigterm() if options.resumes else nullcontext():
            load_plugins(options.plugin)
            options.command(options, Console(highlight=False))
    except InputError as error:
        print(f"parse-dg: {one_line(error)}", file=sys.stderr)
        return EXIT_BUSY if isinstance(error, BusyError) else EXIT_INPUT
    except FailedError as error:
        print(f"parse-dg: {one_line(error)}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        more = "; the same command goes on from what was written so far" if options.resumes else ""
        print(f"parse-dg: interrupted{more}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within, a first SIGTERM is like Ctrl-C, so that what runs can be saved; it may be sent several times."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def keep_direction(terminal: io.TextIOWrapper) -> None:
    """Write marks that turn the direction of text as escapes from now on: a name could look like another."""
    write = terminal.write
    terminal.write = lambda text: write(DIRECTION.sub(escaped, text))  # type: ignore[method-assign]


def one_line(error: Exception) -> str:
    """What an error says; a name in it may hold anything, also the end of a line."""
    return UNPRINTABLE.sub(escaped, str(error))


def build_parser() -> Command:
    """Every command with its options."""
    parser = Command(
        prog="parse-dg",
        description="Image classifiers that keep working on domains they never saw, and show why.",
        epilog="Begin with `parse-dg demo`. `parse-dg COMMAND --help` explains each command.",
    )
    parser.add_argument("--version", action="version", version=f"parse-dg {__version__}")
    parser.set_defaults(plugin=(), resumes=False)  # a command that goes on where it was broken off sets it
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for part in PARTS:
        import_module(f"parse_dg.cli.{part}").add_commands(commands)
    for name in PLUGGABLE:
        _add_plugin(commands.choices[name])
    return parser


def _add_plugin(command: Command) -> None:
    """`--plugin`, for a command or for those below it."""
    below = [action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    for choices in below:
        for inner in choices.values():
            _add_plugin(inner)
    if not below:
        words = "import a plug-in first: an installed one, a module, or a .py file (docs/extend.md)"
        command.section = command
        command.add("--plugin MODULE", words, many=True)
