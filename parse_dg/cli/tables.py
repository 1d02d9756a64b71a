"""`parse-dg table`: accuracies of many runs, chosen by one rule, in one table."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parse_dg.errors import InputError
from parse_dg.evaluation.protocol import SELECTIONS

if TYPE_CHECKING:
    from parse_dg.evaluation.text_table import TextTable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def table(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg table`."""
    from parse_dg.evaluation.domainbed import domainbed_tables, read_sweep
    from parse_dg.evaluation.selection_tables import selection_tables
    from parse_dg.experiments.records import read_runs

    if bool(options.domainbed) == bool(options.runs):
        raise InputError("give run folders, or --domainbed FOLDER with DomainBed's own results, not both")
    if options.domainbed:
        tables = domainbed_tables(read_sweep(options.domainbed), options.selection)
    else:
        tables = selection_tables(read_runs(options.runs, options.selection), options.selection)
    match options.format:
        case "markdown":
            console.print(tables.markdown(), markup=False, soft_wrap=True)
        case "csv":
            console.print(tables.csv(), markup=False, soft_wrap=True)
        case "latex":
            console.print(tables.latex(), markup=False, soft_wrap=True)
        case _:
            for each in tables.text():
                print_table(console, each)


def print_table(console: Console, text: "TextTable") -> None:
    """A table of text, with its title above and its notes below."""
    shown = Table(title=escape(text.title), title_justify="left")
    for number, heading in enumerate(text.header):
        shown.add_column(escape(heading), justify="right" if number else "left")
    for row in text.rows:
        shown.add_row(*(escape(cell) for cell in row))
    console.print(shown)
    for note in text.notes:
        console.print(note, markup=False)


def add_commands(commands: "Commands") -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "table",
        help="accuracies of many runs, chosen by one rule, in one table",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Choose a model for every method, target and trial by one rule, and show mean and standard\n"
        "error over the trials. Reads run folders, or the results.jsonl files that DomainBed writes.",
        epilog="examples:\n  parse-dg table runs/pacs/*/*/*\n  parse-dg table --domainbed sweep --format latex",
    )
    command.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="run folders")
    command.add_argument("--domainbed", type=Path, metavar="FOLDER", help="DomainBed's own output, instead of runs")
    command.add_argument(
        "--selection",
        default="training-domain",
        metavar="NAME",
        help=f"{', '.join(SELECTIONS)} (default: training-domain)",
    )
    command.add_argument(
        "--format", choices=("text", "markdown", "csv", "latex"), default="text", help="default: text"
    )
    command.set_defaults(command=table)
