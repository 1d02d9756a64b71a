"""`parse-dg table`: accuracies of many runs, chosen by one rule, in one table."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, say
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError

if TYPE_CHECKING:
    from parse_dg.tables.published import Published
    from parse_dg.tables.selection_tables import SelectionTables


def table(options: Namespace, console: Console) -> None:
    """Choose a model for every method, target and trial by one rule, and show mean and spread over
    the trials. Reads run folders, or the results.jsonl files that DomainBed writes. Published figures can
    be put below, each with its source and what is to be known about it, or shown alone.

    Views: main, a row a method; ablation, PARSE by its predicate families; k, PARSE by its number of
    primitives, with --plot; compaction, what `parse-dg compact` found, by data set and by target.

    For example:
      parse-dg table runs
      parse-dg table runs/pacs/*/*/* --format html > table.html
      parse-dg table runs/ablation --view ablation --compare paper
      parse-dg table runs/k --view k --plot k.svg
      parse-dg table runs --by optimizer.head_rate --spread std
      parse-dg table --domainbed sweep --format latex
      parse-dg table --published cub-dg
    """
    known = find_published(options.compare) if options.compare or options.published else None
    if sum(map(bool, (options.runs, options.domainbed, options.published))) != 1:
        raise InputError(
            "give run folders, or --domainbed FOLDER with DomainBed's own results, not both; --published, which "
            "shows published figures alone, goes with neither"
        )
    if not options.runs and (options.view != "main" or options.by or options.plot):
        raise InputError("--view, --by and --plot are ways to look at runs: give run folders")
    if options.runs:
        names = ("view", "by", "selection", "spread", "compare", "plot")
        asked = {name: getattr(options, name) for name in names}
        show_runs(options.runs, console, style=options.format, **asked)
    elif options.published:
        assert known is not None
        show_published(options, known, console)
    else:
        show_tables(console, options.format, domainbed(options), known)


def show_runs(
    folders: Sequence[Path],
    console: Console,
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
    from parse_dg.cli.show.tables import show
    from parse_dg.cli.show.views import compaction_tables, compared, curve, view_tables
    from parse_dg.tables.estimate import find_spread

    known = find_published(compare) if compare else None
    if view == "compaction":
        if known or by or plot:
            raise InputError(
                "--view compaction goes without --compare, --by and --plot: its tables are not of accuracy"
            )
        tables, csv = compaction_tables(folders)
        show(console, style, tables, lambda: csv)
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
            say(console, f"plot written to {plot}")


def find_published(sources: str | None) -> "Published":
    """The published figures of the sources that were asked for."""
    from parse_dg.tables.published import published

    if sources is None:
        return published()
    if sources not in published().sources and Path(sources).is_dir():
        raise InputError(f"--compare takes sources, such as paper,domainbed: give it after the run {sources}")
    return published().of(sources)


def domainbed(options: Namespace) -> "SelectionTables":
    """The tables of DomainBed's output."""
    from dataclasses import replace

    from parse_dg.tables.domainbed import domainbed_tables, read_sweep
    from parse_dg.tables.estimate import find_spread

    tables = domainbed_tables(read_sweep(options.domainbed), options.selection)
    return replace(tables, spread=find_spread(options.spread))


def show_tables(console: Console, style: str, tables: "SelectionTables", known: "Published | None") -> None:
    """Tables of ours, with published figures below where those are asked for."""
    from parse_dg.cli.show.tables import show
    from parse_dg.tables.comparison import compare, compare_csv

    if known is None:
        show(console, style, tables.text(), tables.csv)
    else:
        show(console, style, compare(tables, known), lambda: compare_csv(tables, known))


def show_published(options: Namespace, known: "Published", console: Console) -> None:
    """`parse-dg table --published`."""
    from parse_dg.cli.show.tables import show
    from parse_dg.tables.comparison import published_csv, published_tables

    tables = published_tables(known, options.published)
    if not tables:
        raise InputError(f"nothing is known of {options.published} from {options.compare}: leave --compare out")
    show(console, options.format, tables, lambda: published_csv(known, options.published))


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "accuracies of many runs, chosen by one rule, in one table"
    command = add_command(commands, "table", table, words)
    command.add("runs RUN", "run folders, or folders that have runs below them", nargs="*")
    command.add("--domainbed FOLDER", "DomainBed's own output, instead of runs")
    command.add("--view NAME", "main, ablation, k, compaction", "main")
    words = "a row for every value of a configuration field, such as optimizer.head_rate, not of the best alone"
    command.add("--by FIELD", words, many=True)
    words = (
        "put published figures of the same data sets below: all, or, with commas, some of paper, domainbed, swad, "
        "miro, gvrt, erm++; give it after the runs, or beside --published to choose there"
    )
    command.add("--compare SOURCES", words, nargs="?", const="all")
    words = f"published figures alone, of one of {', '.join(DATA_SETS)}, of domainbed (averages), or of all"
    command.add("--published DATA", words, nargs="?", const="all")
    command.add_selection(
        "what stands after ±: se, the standard error of the mean, or std, the standard deviation over trials"
    )
    command.add("--plot FILE", "with --view k: the curve, as .png, .svg or .pdf")
    command.add("--format", choices=("text", "markdown", "csv", "latex", "html"))
