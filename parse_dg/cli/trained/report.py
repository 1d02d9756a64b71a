"""`parse-dg report`: a finished run as one HTML file."""

from argparse import Namespace

from parse_dg.cli.options import Commands, Console, add_command, opened, say
from parse_dg.wording import printable


def report(options: Namespace, console: Console) -> None:
    """Write all there is to say of a finished run into one HTML file, which needs no network and
    no other file: the result and how it was chosen, accuracy and confusions by domain, what each class
    is made of, right and wrong images with their relations, compaction, and how to repeat it.

    The images of the run's benchmark are looked at again. Where they are not on this machine, the report is
    made of what the run's folder holds, and says what it lacks.

    For example:
      parse-dg report runs/blueprints/parse/sketch/seed0 --out parse-sketch.html
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.report.gather import gather_report
    from parse_dg.explain.report.page import check_place, write_report

    path = options.out or options.run / "report.html"
    with progress_display(console) as progress:
        if options.out or options.run.is_dir():
            check_place(path)
        gathered = gather_report(opened(options, progress), images=options.images)
    size = write_report(path, gathered)
    say(console, *map(printable, gathered.notes))
    say(console, f"written to {path}: {size:,} bytes, to be opened in a browser")


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "one HTML file about a run: results, confusions, classes in words, images with their reasons"
    command = add_command(commands, "report", report, words)
    command.add_run("the run's folder")
    command.add("--out FILE", "a .html file (default: RUN/report.html)")
    images = "shown of each kind: right and wrong, of the target and of the source domains; about 20 to 50 kB each"
    command.add("--images N", images, 12)
    command.add_model()
