"""What is to be said of a data set on disk: its counts beside the published ones, and what is wrong with it."""

from dataclasses import dataclass

from parse_dg.data.listing import Problem
from parse_dg.data.manifest import DuplicateGroup, Manifest
from parse_dg.data.public.catalogue import DATA_SETS, compare_counts
from parse_dg.wording import plural, printable, some

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
    named = [f"{printable(problem.path)} ({problem.reason})" for problem in problems]
    return [f"{plural(len(problems), 'file')} {what}: {some(named, NAMED, '; ')}"]


def _skipped(manifest: Manifest) -> list[str]:
    """Grouped by reason: DomainNet has thousands of published duplicates."""
    by_reason: dict[str, list[str]] = {}
    for problem in manifest.skipped:
        by_reason.setdefault(problem.reason, []).append(printable(problem.path))
    return [
        f"{plural(len(paths), 'file')} passed over, {reason}: {some(paths, NAMED, '; ')}"
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
            pairs = [" = ".join(_paths(group)) for group in found]
            remarks.append(f"{plural(len(found), 'image')} {what}: {some(pairs, NAMED, '; ')}")
    return remarks


def _paths(group: DuplicateGroup) -> dict[str, None]:
    """Each file once, in order."""
    return dict.fromkeys(printable(image.path) for image in group.images)


def _several_classes(manifest: Manifest) -> list[str]:
    found = manifest.several_classes
    if not found:
        return []
    named = [f"{printable(path)} ({', '.join(names)})" for path, names in found.items()]
    return [f"{plural(len(found), 'file')} of several classes, an image of each: {some(named, NAMED, '; ')}"]
