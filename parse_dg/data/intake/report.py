"""What is to be said of a data set on disk: its counts beside the published ones, and what is wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from parse_dg.data.listing import Problem
from parse_dg.data.manifest import Manifest
from parse_dg.data.public.catalogue import DATA_SETS, compare_counts
from parse_dg.wording import plural, printable, some

NAMED = 8  # how many files of a kind are named; the others are counted


@dataclass(frozen=True)
class DomainRow:
    """One domain."""

    name: str
    images: int
    published: int | None  # what the papers counted, where the data set is a known one


@dataclass(frozen=True)
class DataReport:
    """A data set, said in full."""

    manifest: Manifest
    domains: tuple[DomainRow, ...]
    differences: tuple[str, ...]  # from the published counts, a sentence each
    remarks: tuple[str, ...]  # unreadable, duplicate and skipped files, and notes, a sentence each; files are named
    changed: tuple[Problem, ...] = ()  # files that are not what they were when the data set was added

    @property
    def changed_in_words(self) -> str:
        """Those files, named: "2 files changed: a.png (…); b.png (…)"."""
        return "".join(_files("changed", self.changed))


def describe_data(manifest: Manifest, changed: tuple[Problem, ...] = ()) -> DataReport:
    """Everything there is to say of a manifest; `changed` is what `verify` found."""
    known = DATA_SETS.get(manifest.name)
    published = dict(zip(known.domains, known.expected[0].counts, strict=True)) if known else {}
    rows = tuple(DomainRow(name, count, published.get(name)) for name, count in manifest.counts.items())
    differences = compare_counts(known, manifest.counts) if known else ()
    remarks = [*_files("unreadable and left out", manifest.unreadable), *_duplicates(manifest)]
    several = [f"{printable(path)} ({', '.join(names)})" for path, names in manifest.several_classes.items()]
    remarks += _said("file", "of several classes, an image of each", several)
    for reason in dict.fromkeys(problem.reason for problem in manifest.skipped):  # DomainNet: thousands
        paths = [printable(problem.path) for problem in manifest.skipped if problem.reason == reason]
        noun = "folder" if reason.startswith("folder ") else "file"
        remarks += _said(noun, f"passed over, {reason.removeprefix('folder ')}", paths)
    return DataReport(manifest, rows, differences, (*remarks, *manifest.notes), changed)


def _said(noun: str, what: str, named: Sequence[str]) -> list[str]:
    return [f"{plural(len(named), noun)} {what}: {some(named, NAMED, '; ')}"] if named else []


def _files(what: str, problems: Sequence[Problem]) -> list[str]:
    return _said("file", what, [f"{printable(problem.path)} ({problem.reason})" for problem in problems])


def _duplicates(manifest: Manifest) -> list[str]:
    """One line, by how much they matter: where a target has images of a source, accuracy on it says too much."""
    named: list[list[str]] = [[], [], []]
    for group in manifest.duplicates:
        domains, classes = {image.domain for image in group}, {image.label for image in group}
        kind = 0 if len(domains) > 1 else 1 if len(classes) > 1 else 2
        named[kind].append(" = ".join(dict.fromkeys(printable(image.path) for image in group)))  # each file once
    across = "in two domains, so that a target has images of a source"
    kinds = zip((across, "in two classes of a domain", "twice in one class"), named, strict=True)
    counts = [f"{len(found):,} {what}" for what, found in kinds if found]
    example = next((found[0] for found in named if found), "")
    several = plural(sum(map(len, named)), "image")
    return [f"{several} more than once ({'; '.join(counts)}), such as {example}"] if counts else []
