"""`parse-dg table`: accuracies of many runs, chosen by one rule, in one table."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import SELECTION_NAMES, Commands
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from parse_dg.tables.published import Published
    from parse_dg.tables.selection_tables import SelectionTables
    from parse_dg.tables.text_table import TextTable

VIEWS = ("main", "ablation", "k", "compaction")
FORMATS = ("text", "markdown", "csv", "latex", "html")
COMMANDS_SHOWN = 12
"""In the terminal; every other form has them all."""


def table(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg table`."""
    known = find_published(options.compare) if options.compare or options.published else None
    if sum(map(bool, (options.runs, options.domainbed, options.published))) != 1:
        raise InputError(
            "give run folders, or --domainbed FOLDER with DomainBed's own results, not both; --published, which "
            "shows published figures alone, goes with neither"
        )
    if not options.runs and (options.view != "main" or options.by or options.plot):
        raise InputError("--view, --by and --plot are ways to look at runs: give run folders")
    if options.runs:
        show_runs(
            options.runs,
            console,
            view=options.view,
            by=options.by,
            selection=options.selection,
            spread=options.spread,
            compare=options.compare,
            plot=options.plot,
            style=options.format,
        )
    elif options.published:
        assert known is not None
        show_published(options, known, console)
    else:
        show_tables(console, options.format, domainbed(options), known)


def show_runs(
    folders: Sequence[Path],
    console: "Console",
    *,
    view: str = "main",
    by: Sequence[str] = (),
    selection: str = "training-domain",
    spread: str = "se",
    compare: str | None = None,
    plot: Path | None = None,
    style: str = "text",
) -> None:
    """The tables of runs, as `parse-dg table` shows them; a folder may be a run, or have runs below it."""
    from parse_dg.cli.show.views import compaction_tables, compared, curve, view_tables
    from parse_dg.tables.estimate import find_spread

    known = find_published(compare) if compare else None
    if view == "compaction":
        if by or plot:
            raise InputError("--view compaction goes without --by and --plot: its tables are not of accuracy")
        if known and style == "csv":
            raise InputError("--view compaction has our own figures alone in csv: leave --compare out")
        found = compaction_tables(folders, known)
        show(console, style, found.tables, lambda: found.csv)
        return
    if plot and view != "k":
        raise InputError(f"--plot draws accuracy against K: it goes with --view k, found --view {view}")
    if plot:
        from parse_dg.tables.curve import check_picture

        check_picture(plot)
    seen = view_tables(folders, view, by, selection, find_spread(spread))
    show_tables(console, style, seen.tables, known and compared(view, known))
    if plot:
        curve(seen, plot)
        if style == "text":
            _print(console, f"plot written to {plot}")


def find_published(sources: str | None) -> "Published":
    """The published figures of the sources that were asked for."""
    from parse_dg.tables.published import published

    if sources is None:
        return published()
    if sources not in published().sources and Path(sources).is_dir():
        raise InputError(f"--compare takes sources, such as paper,domainbed: give it after the run {sources}")
    return published().of(sources)


def domainbed(options: argparse.Namespace) -> "SelectionTables":
    """The tables of DomainBed's output."""
    from dataclasses import replace

    from parse_dg.tables.domainbed import domainbed_tables, read_sweep
    from parse_dg.tables.estimate import find_spread

    tables = domainbed_tables(read_sweep(options.domainbed), options.selection)
    return replace(tables, spread=find_spread(options.spread))


def show_tables(console: "Console", style: str, tables: "SelectionTables", known: "Published | None") -> None:
    """Tables of ours, with published figures below where those are asked for."""
    from parse_dg.tables.comparison import compare, compare_csv

    if known is None:
        show(console, style, tables.text(), tables.csv)
    else:
        show(console, style, compare(tables, known), lambda: compare_csv(tables, known))


def show_published(options: argparse.Namespace, known: "Published", console: "Console") -> None:
    """`parse-dg table --published`."""
    from parse_dg.tables.comparison import published_csv, published_tables

    tables = published_tables(known, options.published)
    if not tables:
        raise InputError(f"nothing is known of {options.published} from {options.compare}: leave --compare out")
    show(console, options.format, tables, lambda: published_csv(known, options.published))


def show(console: "Console", style: str, tables: Sequence["TextTable"], as_csv: Callable[[], str]) -> None:
    """Tables in the form that was asked for."""
    from parse_dg.tables.text_table import html_page

    match style:
        case "markdown":
            _print(console, "\n\n".join(each.markdown() for each in tables))
        case "csv":
            _print(console, as_csv())
        case "latex":
            _print(console, "\n\n".join(each.latex() for each in tables))
        case "html":
            _print(console, html_page(tables))
        case _:
            for each in tables:
                print_table(console, each)


def print_table(console: "Console", text: "TextTable") -> None:
    """A table of text, with its title above, its notes below, and commands on lines of their own."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from parse_dg.tables.text_table import TO_FILL

    shown = Table(title=escape(text.title), title_justify="left")
    for number, heading in enumerate(text.header):
        name = number < text.names
        shown.add_column(escape(heading), justify="left" if name else "right", overflow="fold")
    for r, row in enumerate(text.rows):
        shown.add_row(*(Text(cell, style="bold" if (r, c) in text.bold else "") for c, cell in enumerate(row)))
    console.print(shown)
    for note in text.notes:
        console.print(note, markup=False, emoji=False)
    if text.commands:
        _print(console, TO_FILL)
    for command in text.commands[:COMMANDS_SHOWN]:
        _print(console, f"  {command}")
    if len(text.commands) > COMMANDS_SHOWN:
        _print(console, f"  and {len(text.commands) - COMMANDS_SHOWN} more: --format markdown lists them all")


def _print(console: "Console", text: str) -> None:
    """Text as it is, on lines as long as they are."""
    console.print(text, markup=False, emoji=False, soft_wrap=True)


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "table",
        help="accuracies of many runs, chosen by one rule, in one table",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Choose a model for every method, target and trial by one rule, and show mean and spread over\n"
        "the trials. Reads run folders, or the results.jsonl files that DomainBed writes. Published figures can\n"
        "be put below, each with its source and what is to be known about it, or shown alone.\n\n"
        "Views: main, a row a method; ablation, PARSE by its predicate families; k, PARSE by its number of\n"
        "primitives, with --plot; compaction, what `parse-dg compact` found, by data set and by target.",
        epilog="examples:\n  parse-dg table runs\n  parse-dg table runs/pacs/*/*/* --format html > table.html\n"
        "  parse-dg table runs/ablation --view ablation --compare paper\n"
        "  parse-dg table runs/k --view k --plot k.svg\n"
        "  parse-dg table runs --by optimizer.head_rate --spread std\n"
        "  parse-dg table --domainbed sweep --format latex\n  parse-dg table --published cub-dg",
    )
    command.add_argument(
        "runs", type=Path, nargs="*", metavar="RUN", help="run folders, or folders that have runs below them"
    )
    command.add_argument("--domainbed", type=Path, metavar="FOLDER", help="DomainBed's own output, instead of runs")
    command.add_argument("--view", default="main", metavar="NAME", help=f"{', '.join(VIEWS)} (default: main)")
    command.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="FIELD",
        help="a row for every value of a configuration field, such as optimizer.head_rate, instead of the best of "
        "them; repeatable",
    )
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
        help=f"{SELECTION_NAMES} (default: training-domain)",
    )
    command.add_argument(
        "--spread",
        default="se",
        metavar="NAME",
        help="what stands after ±: se, the standard error of the mean, or std, the standard deviation over trials "
        "(default: se)",
    )
    command.add_argument(
        "--plot", type=Path, metavar="FILE", help="with --view k: the curve, as .png, .svg or .pdf"
    )
    command.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    command.set_defaults(command=table)
