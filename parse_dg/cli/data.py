"""The commands about data sets: add, list, check, show, download, remove."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from parse_dg.data.intake.report import DataReport

KNOWN = ", ".join(DATA_SETS)


def add(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg data add`."""
    from parse_dg.cli.show.display import print_path, progress_display
    from parse_dg.data.intake.library import add, manifest_path
    from parse_dg.data.intake.report import describe_data

    with progress_display(console) as progress:
        manifest = add(
            options.name,
            options.paths,
            duplicates=options.duplicates,
            keep_truncated=options.keep_truncated,
            replace=options.replace,
            progress=progress,
        )
    print_report(console, describe_data(manifest))
    print_path(console, "added: its manifest is", manifest_path(options.name))


def check(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg data check`: every file again, against the manifest."""
    from parse_dg.cli.show.display import progress_display
    from parse_dg.data.intake.library import check
    from parse_dg.data.intake.report import describe_data

    if options.name == "blueprints":
        raise InputError("blueprints is drawn by this program: it has no files that could be missing or changed")
    with progress_display(console) as progress:
        manifest, changed = check(options.name, progress)
    report = describe_data(manifest, changed)
    print_report(console, report)
    if changed:
        raise InputError(
            f"{options.name} is not what was added: {report.changed_in_words}; put it right, "
            f"or `parse-dg data add {options.name} PATH --replace`"
        )
    console.print(f"all {manifest.files:,} files are there and unchanged (size and SHA-256)")


def list_all(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg data list`."""
    from rich.markup import escape
    from rich.table import Table

    from parse_dg.data.intake.library import added, manifest_path
    from parse_dg.data.intake.manifest_file import read_header

    table = Table("name", "domains", "classes", "images", "where")
    table.add_row("blueprints", "photo, cartoon, sketch, paint", "8", "7,680", "drawn on first use")
    for name in added():
        try:
            found = read_header(manifest_path(name))
        except InputError as error:
            table.add_row(name, "", "", "", escape(str(error)))
            continue
        domains = escape(", ".join(found.domains))
        table.add_row(name, domains, str(len(found.classes)), f"{found.images:,}", escape(str(found.root)))
    for name, known in DATA_SETS.items():
        if name not in added():
            counts = f"{known.published_images:,} published"
            table.add_row(name, ", ".join(known.domains), str(len(known.classes)), counts, "not here yet")
    console.print(table)
    console.print("`parse-dg data add NAME PATH` adds one; any folder domain/class/image can be used by its path")


def show(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg data show`."""
    from parse_dg.cli.show.display import print_path, progress_display
    from parse_dg.data.benchmarks import DataConfig
    from parse_dg.data.contact_sheets import write_contact_sheets

    config = DataConfig(benchmark=options.name, store="never", image_size=options.pixels)
    with progress_display(console) as progress:
        sheets = write_contact_sheets(config, options.out, options.images, progress)
    for sheet in sheets:
        print_path(console, "contact sheet:", sheet)


def download(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg data download`."""
    from parse_dg.cli.show.display import print_path, progress_display
    from parse_dg.data.intake.library import download, manifest_path
    from parse_dg.data.intake.report import describe_data

    with progress_display(console) as progress:
        manifest = download(options.name, progress)
    print_report(console, describe_data(manifest))
    print_path(console, "added: its manifest is", manifest_path(options.name))


def remove(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg data remove`."""
    from parse_dg.data.intake.library import remove

    remove(options.name)
    console.print(f"{options.name} is forgotten; files that lay outside the data folder are untouched")


def print_report(console: "Console", report: "DataReport") -> None:
    """Counts by domain, then what differs and what is wrong, a line each."""
    from rich.markup import escape
    from rich.table import Table

    manifest = report.manifest
    known = any(row.published is not None for row in report.domains)
    console.print(f"{manifest.name}: {manifest.layout}", markup=False, soft_wrap=True)
    table = Table("domain")
    table.add_column("images", justify="right")
    if known:
        table.add_column("published", justify="right")
    for row in report.domains:
        table.add_row(escape(row.name), f"{row.images:,}", *([f"{row.published:,}"] if row.published else []))
    published = sum(row.published or 0 for row in report.domains)
    table.add_row("[bold]all", f"[bold]{len(manifest.images):,}", *([f"[bold]{published:,}"] if known else []))
    console.print(table)
    sizes = sorted({(image.width, image.height) for image in manifest.images})
    shapes = f"of {sizes[0][0]} × {sizes[0][1]} pixels" if len(sizes) == 1 else f"of {len(sizes):,} different sizes"
    console.print(f"{len(manifest.classes)} classes; images {shapes}; fingerprint {manifest.fingerprint[:16]}")
    for sentence in (*report.differences, *report.remarks):
        console.print(f"- {sentence}", markup=False, soft_wrap=True)
    if known and not report.differences:
        console.print("the counts of every domain are the published ones")


def add_commands(commands: Commands) -> None:
    """Add the commands of this file."""
    group = commands.add_parser("data", help="add, check, show and download data sets")
    hint = "`parse-dg data COMMAND --help` explains each"
    verbs = group.add_subparsers(title="commands", required=True, metavar="COMMAND", help=hint)
    _add_add(verbs)
    command = verbs.add_parser("list", help="the data sets that are here, and those that could be")
    command.set_defaults(command=list_all)
    command = verbs.add_parser("check", help="are all files there, unchanged, none new, as many as published?")
    command.add_argument("name", metavar="DATA", help="a name, or the path of a folder or list")
    command.set_defaults(command=check)
    command = verbs.add_parser("show", help="write a contact sheet of every domain")
    command.add_argument("name", metavar="DATA", help="a name, or the path of a folder or list")
    command.add_argument("--out", type=Path, metavar="FOLDER", help="default: contact_sheets/DATA")
    command.add_argument("--images", type=int, default=8, metavar="N", help="of each class (default: 8)")
    command.add_argument("--pixels", type=int, default=112, metavar="N", help="side of each (default: 112)")
    command.set_defaults(command=show)
    command = verbs.add_parser("download", help="fetch a public data set, check it and add it")
    command.add_argument("name", metavar="NAME", help=KNOWN)
    command.set_defaults(command=download, resumes=True)
    command = verbs.add_parser("remove", help="forget a data set, with what was unpacked for it")
    command.add_argument("name", metavar="NAME")
    command.set_defaults(command=remove)


def _path(text: str) -> Path:
    """A path; nothing is not taken for the current folder, as a variable of the shell may be unset."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a path, found nothing")
    return Path(text)


def _add_add(verbs: Commands) -> None:
    command = verbs.add_parser(
        "add",
        help="index a folder, archives or a list under a name",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Index a data set: recognise how its folders are laid out, open every image once, compare the\n"
        "counts with the published ones, name what is unreadable or there twice, and keep a manifest with every\n"
        "image's size and SHA-256. A folder stays where it is; archives are unpacked into the data folder.",
        epilog="examples:\n  parse-dg data add pacs PACS.zip\n  parse-dg data add domainnet ~/data/domain_net\n"
        "  parse-dg data add birds ~/birds    (a folder domain/class/image of your own)\n"
        "  parse-dg data add birds birds.csv  (columns path, domain, class)",
    )
    command.add_argument("name", metavar="NAME", help=f"{KNOWN}, or a name of your own")
    command.add_argument(
        "paths", type=_path, nargs="+", metavar="PATH", help="a folder, a .csv or .json list, or archives"
    )
    command.add_argument(
        "--duplicates", type=Path, metavar="FILE", help="a list of images to leave out (DomainNet has one built in)"
    )
    command.add_argument(
        "--keep-truncated",
        action="store_true",
        help="use files that end too early as far as they go, as DomainBed does",
    )
    command.add_argument("--replace", action="store_true", help="index anew what was added before")
    command.set_defaults(command=add)
