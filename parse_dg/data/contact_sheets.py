"""Contact sheets of a data set: some images of every class, a sheet a domain."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from parse_dg.config import require
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.contact import COLUMNS, contact_sheet, spread
from parse_dg.data.domain import Benchmark, Domain
from parse_dg.data.listing import Progress
from parse_dg.files import attempting


def write_contact_sheets(
    config: DataConfig, folder: Path | None, images: int, progress: Progress | None = None
) -> list[Path]:
    """Write DOMAIN.png for every domain into `folder`, with `images` of each class; their paths.

    The images are `config.image_size` pixels a side on the sheet.
    """
    require(1 <= images <= COLUMNS, "--images", images, f"from 1 to {COLUMNS}")
    require(16 <= config.image_size <= 512, "--pixels", config.image_size, "from 16 to 512")
    benchmark = open_benchmark(config, progress)
    folder = folder or Path("contact_sheets") / benchmark.name
    paths = []
    with attempting(f"write contact sheets to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        names = file_names([domain.name for domain in benchmark.domains])
        for number, (domain, name) in enumerate(zip(benchmark.domains, names, strict=True), 1):
            path = folder / f"{name}.png"
            _write(benchmark, domain, path, images, config.image_size)
            paths.append(path)
            if progress:
                progress("contact sheets", number, len(benchmark.domains))
    return paths


def file_names(domains: Sequence[str]) -> list[str]:
    """The name of a file for each domain: letters, digits, dots, dashes; numbered where two would be the same."""
    plain = [re.sub(r"[^\w.-]+", "_", name)[:60].lstrip(".") or "_" for name in domains]
    if len({name.casefold() for name in plain}) == len(plain):
        return plain
    return [f"{number}_{name}" for number, name in enumerate(plain, 1)]


def _write(benchmark: Benchmark, domain: Domain, path: Path, images: int, pixels: int) -> None:
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
    contact_sheet(title, names, rows, path, counts=counts, of=len(benchmark.classes), cell=pixels)
