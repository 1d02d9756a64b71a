"""What is to be said of a data set on disk: its counts beside the published ones, and what is wrong with it."""

from dataclasses import dataclass

from parse_dg.data.catalogue import DATA_SETS, compare_counts
from parse_dg.data.images import printable
from parse_dg.data.listing import Problem
from parse_dg.data.manifest import Duplicates, Manifest

NAMED = 8
"""How many files of a kind are named; the others are counted."""


@dataclass(frozen=True)
class DomainRow:
    """One domain."""

    name: str
    images: int
    published: int | None
    """What the papers counted, where the data set is a known one."""


@dataclass(frozen=True)
class DataReport:
    """A data set, said in full."""

    manifest: Manifest
    domains: tuple[DomainRow, ...]
    differences: tuple[str, ...]
    """From the published counts, a sentence each."""
    remarks: tuple[str, ...]
    """Unreadable, duplicate and skipped files, and notes, a sentence each; files are named."""
    changed: tuple[Problem, ...] = ()
    """Files that are not what they were when the data set was added."""

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
    remarks += [*_several_classes(manifest), *_skipped(manifest), *manifest.notes]
    return DataReport(manifest, rows, differences, tuple(remarks), changed)


def _files(what: str, problems: tuple[Problem, ...]) -> list[str]:
    if not problems:
        return []
    named = [f"{printable(problem.path)} ({problem.reason})" for problem in problems[:NAMED]]
    return [f"{_count(len(problems), 'file')} {what}: {_list(named, len(problems))}"]


def _skipped(manifest: Manifest) -> list[str]:
    """Grouped by reason: DomainNet has thousands of published duplicates."""
    by_reason: dict[str, list[str]] = {}
    for problem in manifest.skipped:
        by_reason.setdefault(problem.reason, []).append(printable(problem.path))
    return [
        f"{_count(len(paths), 'file')} passed over, {reason}: {_list(paths[:NAMED], len(paths))}"
        for reason, paths in by_reason.items()
    ]


def _duplicates(manifest: Manifest) -> list[str]:
    groups = manifest.duplicates
    kinds = {
        "in two domains, so that a target has an image of a source": [g for g in groups if g.across_domains],
        "in two classes of a domain": [g for g in groups if g.across_classes and not g.across_domains],
        "twice in one class": [g for g in groups if not g.across_classes and not g.across_domains],
    }
    remarks = []
    for what, found in kinds.items():
        if found:
            pairs = [" = ".join(_paths(group)) for group in found[:NAMED]]
            remarks.append(f"{_count(len(found), 'image')} {what}: {_list(pairs, len(found))}")
    return remarks


def _paths(group: Duplicates) -> dict[str, None]:
    """Each file once, in order."""
    return dict.fromkeys(printable(image.path) for image in group.images)


def _several_classes(manifest: Manifest) -> list[str]:
    found = manifest.several_classes
    if not found:
        return []
    named = [f"{printable(path)} ({', '.join(names)})" for path, names in list(found.items())[:NAMED]]
    return [f"{_count(len(found), 'file')} of several classes, an image of each: {_list(named, len(found))}"]


def _list(named: list[str], count: int) -> str:
    more = f" and {count - len(named):,} more" if count > len(named) else ""
    return "; ".join(named) + more


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
