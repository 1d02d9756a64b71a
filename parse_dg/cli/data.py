"""The commands about data sets: add, list, check, show, download, remove."""

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, Console, add_command, add_group, say
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError

if TYPE_CHECKING:
    from parse_dg.data.intake.report import DataReport
    from parse_dg.data.manifest import Manifest

KNOWN = ", ".join(DATA_SETS)
SHAPES = "training squashes them, unless --set data.fit=crop or =pad keeps their shape (docs/own_data.md)"


def add_data(options: Namespace, console: Console) -> None:
    """Index a data set: recognise how its folders are laid out, open every image once, compare the
    counts with the published ones, name what is unreadable or there twice, and keep a manifest with every
    image's size and SHA-256. A folder stays where it is; archives are unpacked into the data folder.

    For example:
      parse-dg data add pacs PACS.zip
      parse-dg data add domainnet ~/data/domain_net
      parse-dg data add birds ~/birds    (a folder domain/class/image of your own)
      parse-dg data add birds birds.csv  (columns path, domain, class)
    """
    from parse_dg.cli.show.display import progress_display
    from parse_dg.data.intake.library import add

    more = {name: getattr(options, name) for name in ("duplicates", "keep_truncated", "replace")}
    with progress_display(console) as progress:
        manifest = add(options.name, options.paths, **more, progress=progress)
    _print_added(console, options.name, manifest)


def download(options: Namespace, console: Console) -> None:
    """Fetch a public data set from where its makers keep it, check it and add it."""
    from parse_dg.cli.show.display import progress_display
    from parse_dg.data.intake.library import download

    with progress_display(console) as progress:
        manifest = download(options.name, progress)
    _print_added(console, options.name, manifest)


def _print_added(console: Console, name: str, manifest: "Manifest") -> None:
    from parse_dg.data.intake.library import manifest_path
    from parse_dg.data.intake.report import describe_data

    print_report(console, describe_data(manifest))
    say(console, f"added: its manifest is {manifest_path(name)}")


def check(options: Namespace, console: Console) -> None:
    """Look at every file of a data set again, against its manifest."""
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
    say(console, f"all {manifest.files:,} files are there and unchanged (size and SHA-256)")


def list_all(options: Namespace, console: Console) -> None:
    """List the data sets that are here, and the public ones that could be."""
    from parse_dg.cli.show.tables import print_rows
    from parse_dg.data.intake.library import added, manifest_path
    from parse_dg.data.intake.manifest_file import read_header

    rows = [("blueprints", "photo, cartoon, sketch, paint", "8", "7,680", "drawn on first use")]
    for name in added():
        try:
            found = read_header(manifest_path(name))
        except InputError as error:
            rows.append((name, "", "", "", str(error)))
            continue
        counts = (str(len(found.classes)), f"{found.images:,}")
        rows.append((name, ", ".join(found.domains), *counts, str(found.root)))
    for name, known in DATA_SETS.items():
        if name not in added():
            counts = (str(len(known.classes)), f"{known.published_images:,} published")
            rows.append((name, ", ".join(known.domains), *counts, "not here yet"))
    print_rows(console, ("name", "domains", "classes", "images", "where"), rows, names=5)
    say(console, "`parse-dg data add NAME PATH` adds one; any folder domain/class/image can be used by its path")


def show(options: Namespace, console: Console) -> None:
    """Write a contact sheet of every domain: some images of each class."""
    from parse_dg.cli.show.display import progress_display
    from parse_dg.data.benchmarks import DataConfig
    from parse_dg.data.contact_sheets import write_contact_sheets

    config = DataConfig(benchmark=options.name, store="never", image_size=options.pixels, fit="pad")
    with progress_display(console) as progress:
        sheets = write_contact_sheets(config, options.out, options.images, progress)
    say(console, *(f"contact sheet: {sheet}" for sheet in sheets))


def remove(options: Namespace, console: Console) -> None:
    """Forget a data set, with what was unpacked for it."""
    from parse_dg.data.intake.library import remove

    remove(options.name)
    say(console, f"{options.name} is forgotten; files that lay outside the data folder are untouched")


def print_report(console: Console, report: "DataReport") -> None:
    """Counts by domain, then what differs and what is wrong, a line each."""
    from parse_dg.cli.show.tables import print_table
    from parse_dg.tables.text_table import TextTable

    manifest = report.manifest
    known = any(row.published is not None for row in report.domains)
    width = 3 if known else 2
    domains = [(row.name, row.images, row.published or 0) for row in report.domains]
    domains.append(("all", len(manifest.images), sum(published for *_, published in domains)))
    counts = [(name, f"{images:,}", f"{published:,}" if published else "") for name, images, published in domains]
    rows = tuple(row[:width] for row in counts)
    say(console, f"{manifest.name}: {manifest.layout}")
    bold = frozenset((len(rows) - 1, column) for column in range(width))
    print_table(console, TextTable("", ("domain", "images", "published")[:width], rows, (), bold=bold))
    sizes = sorted({(image.width, image.height) for image in manifest.images})
    shapes = f"of {sizes[0][0]} × {sizes[0][1]} pixels" if len(sizes) == 1 else f"of {len(sizes):,} different sizes"
    say(console, f"{len(manifest.classes)} classes; images {shapes}; fingerprint {manifest.fingerprint[:16]}")
    if oblong := sum(image.width != image.height for image in manifest.images):
        say(console, f"{oblong:,} of {len(manifest.images):,} images are not square: {SHAPES}")
    say(console, *(f"- {sentence}" for sentence in (*report.differences, *report.remarks)))
    if known and not report.differences:
        say(console, "the counts of every domain are the published ones")


def add_commands(commands: Commands) -> None:
    """Add the commands of this file."""
    verbs = add_group(commands, "data", "add, check, show and download data sets")
    command = add_command(verbs, "add", add_data, "index a folder, archives or a list under a name")
    command.add("name NAME", f"{KNOWN}, or a name of your own")
    command.add("paths PATH", "a folder, a .csv or .json list, or archives", type=_path, nargs="+")
    command.add("--duplicates FILE", "a list of images to leave out (DomainNet has one built in)")
    command.add("--keep-truncated", "use files that end too early as far as they go, as DomainBed does")
    command.add("--replace", "index anew what was added before")
    add_command(verbs, "list", list_all, "the data sets that are here, and those that could be")
    words = "are all files there, unchanged, none new, as many as published?"
    add_command(verbs, "check", check, words).add("name DATA", "a name, or the path of a folder or list")
    command = add_command(verbs, "show", show, "write a contact sheet of every domain")
    command.add("name DATA", "a name, or the path of a folder or list")
    command.add("--out FOLDER", "default: contact_sheets/DATA")
    command.add("--images N", "of each class", 8)
    command.add("--pixels N", "side of each", 112)
    words = "fetch a public data set, check it and add it"
    add_command(verbs, "download", download, words, resumes=True).add("name NAME", KNOWN)
    words = "forget a data set, with what was unpacked for it"
    add_command(verbs, "remove", remove, words).add("name NAME", "as `parse-dg data list` has it")


def _path(text: str) -> Path:
    """A path; nothing is not taken for the current folder, as a variable of the shell may be unset."""
    if not text.strip():
        raise ArgumentTypeError("expected a path, found nothing")
    return Path(text)
