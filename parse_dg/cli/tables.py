"""`parse-dg table`: accuracies of many runs, chosen by one rule, in one table."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parse_dg.data.catalogue import DATA_SETS
from parse_dg.errors import InputError
from parse_dg.evaluation.protocol import SELECTIONS

if TYPE_CHECKING:
    from parse_dg.evaluation.published import Published
    from parse_dg.evaluation.selection_tables import SelectionTables
    from parse_dg.evaluation.text_table import TextTable

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def table(options: argparse.Namespace, console: Console) -> None:
    """`parse-dg table`."""
    known = find_published(options.compare) if options.compare or options.published else None
    if sum(map(bool, (options.runs, options.domainbed, options.published))) != 1:
        raise InputError(
            "give run folders, or --domainbed FOLDER with DomainBed's own results, not both; --published, which "
            "shows published figures alone, goes with neither"
        )
    if known is None:
        tables = select_tables(options)
        show(console, options.format, tables.text(), tables.csv)
    elif options.published:
        show_published(options, known, console)
    else:
        show_comparison(options, known, console)


def find_published(sources: str | None) -> "Published":
    """The published figures of the sources that were asked for."""
    from parse_dg.evaluation.published import published

    if sources is None:
        return published()
    if sources not in published().sources and Path(sources).is_dir():
        raise InputError(f"--compare takes sources, such as paper,domainbed: give it after the run {sources}")
    return published().of(sources)


def select_tables(options: argparse.Namespace) -> "SelectionTables":
    """The tables of the runs, or of DomainBed's output, that were given."""
    from parse_dg.evaluation.domainbed import domainbed_tables, read_sweep
    from parse_dg.evaluation.selection_tables import selection_tables
    from parse_dg.experiments.records import read_runs

    if options.domainbed:
        return domainbed_tables(read_sweep(options.domainbed), options.selection)
    return selection_tables(read_runs(options.runs, options.selection), options.selection)


def show_comparison(options: argparse.Namespace, known: "Published", console: Console) -> None:
    """`parse-dg table RUN... --compare`."""
    from parse_dg.evaluation.comparison import compare, compare_csv

    tables = select_tables(options)
    show(console, options.format, compare(tables, known), lambda: compare_csv(tables, known))


def show_published(options: argparse.Namespace, known: "Published", console: Console) -> None:
    """`parse-dg table --published`."""
    from parse_dg.evaluation.comparison import published_csv, published_tables

    tables = published_tables(known, options.published)
    if not tables:
        raise InputError(f"nothing is known of {options.published} from {options.compare}: leave --compare out")
    show(console, options.format, tables, lambda: published_csv(known, options.published))


def show(console: Console, style: str, tables: Sequence["TextTable"], as_csv: Callable[[], str]) -> None:
    """Tables in the form that was asked for."""
    match style:
        case "markdown":
            text = "\n\n".join(each.markdown() for each in tables)
            console.print(text, markup=False, soft_wrap=True)
        case "csv":
            console.print(as_csv(), markup=False, soft_wrap=True)
        case "latex":
            text = "\n\n".join(each.latex() for each in tables)
            console.print(text, markup=False, soft_wrap=True)
        case _:
            for each in tables:
                print_table(console, each)


def print_table(console: Console, text: "TextTable") -> None:
    """A table of text, with its title above and its notes below."""
    shown = Table(title=escape(text.title), title_justify="left")
    for number, heading in enumerate(text.header):
        shown.add_column(escape(heading), justify="left" if number < text.names else "right")
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
        "error over the trials. Reads run folders, or the results.jsonl files that DomainBed writes. Published\n"
        "figures can be put below, each with its source and what is to be known about it, or shown alone.",
        epilog="examples:\n  parse-dg table runs/pacs/*/*/*\n  parse-dg table --domainbed sweep --format latex\n"
        "  parse-dg table runs/pacs/*/*/* --compare paper,domainbed\n  parse-dg table --published cub-dg",
    )
    command.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="run folders")
    command.add_argument("--domainbed", type=Path, metavar="FOLDER", help="DomainBed's own output, instead of runs")
    command.add_argument(
        "--compare",
        nargs="?",
        const="all",
        metavar="SOURCES",
        help="put published figures of the same data sets below: all, or, with commas, some of paper, domainbed, "
        "swad, miro, gvrt, erm++; give it after the runs, or beside --published to choose there",
    )
    command.add_argument(
        "--published",
        nargs="?",
        const="all",
        metavar="DATA",
        help=f"published figures alone, of one of {', '.join(DATA_SETS)}, of domainbed (averages), or of all",
    )
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
