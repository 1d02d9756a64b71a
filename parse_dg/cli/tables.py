"""`parse-dg table`: accuracies of many runs, chosen by one rule, in one table."""

from argparse import Namespace

from parse_dg.cli.options import Commands, Console, add_command
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError


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
    from parse_dg.cli.show.views import find_published, show_domainbed, show_published, show_runs

    known = find_published(options.compare) if options.compare or options.published else None
    if sum(map(bool, (options.runs, options.domainbed, options.published))) != 1:
        raise InputError(
            "give run folders, or --domainbed FOLDER with DomainBed's own results, not both; --published, which "
            "shows published figures alone, goes with neither"
        )
    if not options.runs and (options.view != "main" or options.by or options.plot or options.against):
        raise InputError("--view, --by, --against and --plot are ways to look at runs: give run folders")
    if options.runs:
        names = ("view", "by", "selection", "spread", "compare", "plot", "against")
        asked = {name: getattr(options, name) for name in names}
        show_runs(options.runs, console, style=options.format, **asked)
    elif options.published:
        assert known is not None
        show_published(options, known, console)
    else:
        show_domainbed(options, known, console)


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
    words = "compare every row of runs with this one, paired over targets and seeds, and say how likely by chance"
    command.add("--against ROW", words)
    command.add("--plot FILE", "with --view k: the curve, as .png, .svg or .pdf")
    command.add_format("text", "markdown", "csv", "csv-raw", "latex", "html")
