"""Contact sheets of a data set: some images of every class, a sheet a domain."""

import re
from pathlib import Path

import numpy as np

from parse_dg.config import require
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.contact import contact_sheet, spread
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.data.listing import Progress
from parse_dg.errors import InputError


def write_contact_sheets(
    config: DataConfig, folder: Path | None, images: int, progress: Progress | None = None
) -> list[Path]:
    """Write DOMAIN.png for every domain into `folder`, with `images` of each class; their paths."""
    require(1 <= images <= 12, "--images", images, "from 1 to 12")
    benchmark = open_benchmark(config, progress)
    folder = folder or Path("contact_sheets") / benchmark.name
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, domain in enumerate(benchmark.domains, 1):
            path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', domain.name)}.png"
            _write(benchmark, domain, path, images)
            paths.append(path)
            if progress:
                progress("contact sheets", number, len(benchmark.domains))
    except OSError as error:
        raise InputError(f"cannot write contact sheets to {folder}: {error.strerror or error}") from error
    return paths


def _write(benchmark: Benchmark, domain: Domain, path: Path, images: int) -> None:
    """Only the classes and images that are shown are read."""
    chosen = spread(len(benchmark.classes))
    rows, counts = [], []
    for label in chosen:
        members = np.flatnonzero(domain.labels == label)
        shown = members[list(spread(len(members), images))]
        rows.append(list(domain.images[shown]))
        counts.append(len(members))
    names = [benchmark.classes[label] for label in chosen]
    title = f"{benchmark.name}: {domain.name}"
    contact_sheet(title, names, rows, path, counts=counts, of=len(benchmark.classes))
