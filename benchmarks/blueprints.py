"""The Blueprints table of docs/results.md: every domain held out in turn, several seeds, three methods.

    python -m benchmarks.blueprints                      # 4 domains × 3 seeds × 3 methods, in ./runs/table
    python -m benchmarks.blueprints --workers 16 --set training.steps=800

Finished runs are kept: the same command continues where it was stopped.
"""

import argparse
import multiprocessing
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from parse_dg.algorithms import ALGORITHMS
from parse_dg.cli.show.display import progress_display
from parse_dg.config import change
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.blueprints.benchmark import DOMAINS
from parse_dg.files import write_json
from parse_dg.runs.recipes import build_config
from parse_dg.runs.result import RunResult
from parse_dg.runs.run import execute
from parse_dg.tables.text_table import markdown_table


def main() -> None:
    options = _options()
    console = Console()
    settings = dict(pair.split("=", 1) for pair in options.set)
    jobs = [
        (method, {**settings, "data.target": target, "seed": seed}, options.out / method / target / f"seed{seed}")
        for seed in options.seeds
        for target in DOMAINS
        for method in options.methods
    ]
    with progress_display(console) as progress:  # drawn once, before many want it
        open_benchmark(change(build_config("blueprints", "erm"), settings).data, progress)
    threads = max(1, (os.cpu_count() or 1) // options.workers)
    results = _run_all(jobs, options.workers, threads, console)
    table = accuracy_table(results, DOMAINS)
    console.print(table.markdown(), markup=False, soft_wrap=True)
    console.print(
        f"accuracy in % on all images of the held-out domain, mean ± standard deviation of {options.seeds}"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(table.markdown() + "\n")
    write_json(options.out / "results.json", [result.to_dict() for result in results])


def _run_all(
    jobs: list[tuple[str, dict[str, object], Path]], workers: int, threads: int, console: Console
) -> list[RunResult]:
    results: dict[int, RunResult] = {}
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(workers, context, torch.set_num_threads, (threads,)) as pool,
        Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console) as progress,
    ):
        task = progress.add_task("runs", total=len(jobs))
        waiting = {pool.submit(_run, *job): number for number, job in enumerate(jobs)}
        for future in as_completed(waiting):
            results[waiting[future]] = result = future.result()
            progress.advance(task)
            target = result.target
            progress.print(f"{result.algorithm} {target.domain} seed {result.seed}: {target.accuracy:.3f}")
    return [results[number] for number in range(len(jobs))]


def _run(method: str, settings: dict[str, object], folder: Path) -> RunResult:
    config = change(build_config("blueprints", method), settings)
    return execute(config, folder, lambda step, check: None)


@dataclass(frozen=True)
class Cell:
    """Target accuracies of several seeds, as fractions."""

    values: tuple[float, ...]

    def __str__(self) -> str:
        """Mean ± sample standard deviation in per cent; the mean alone for a single seed."""
        if not self.values:
            return "missing"
        mean = 100 * statistics.mean(self.values)
        if len(self.values) == 1:
            return f"{mean:.1f}"
        return f"{mean:.1f} ± {100 * statistics.stdev(self.values):.1f}"


@dataclass(frozen=True)
class AccuracyTable:
    """Target accuracy by method and held-out domain, over seeds."""

    domains: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    """By method, then by held-out domain."""
    average: Mapping[str, Cell]
    """By method: for every seed that has all domains, the mean over them."""
    validation: Mapping[str, Cell]
    """By method: for every such seed, the mean source validation accuracy."""

    def markdown(self) -> str:
        """The table in Markdown, the best mean of each column in bold."""
        header = ["method", *(f"{domain}" for domain in self.domains), "mean of targets", "source validation"]
        columns = [{m: row[d] for m, row in self.rows.items()} for d in self.domains]
        columns += [dict(self.average), dict(self.validation)]
        return markdown_table(header, [[m, *(_emphasise(column, m) for column in columns)] for m in self.rows])


def accuracy_table(results: Sequence[RunResult], domains: Sequence[str]) -> AccuracyTable:
    """Gather the results of many runs; a run is told apart by its method, target and seed."""
    target: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    validation: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for result in results:
        method, domain, seed = result.algorithm, result.target.domain, result.seed
        target[method][domain][seed] = result.target.accuracy
        validation[method][domain][seed] = result.validation_mean_accuracy
    return AccuracyTable(
        domains=tuple(domains),
        rows={m: {d: Cell(tuple(by[d].values())) for d in domains} for m, by in target.items()},
        average={m: _over_domains(by, domains) for m, by in target.items()},
        validation={m: _over_domains(by, domains) for m, by in validation.items()},
    )


def _over_domains(by_domain: Mapping[str, Mapping[int, float]], domains: Sequence[str]) -> Cell:
    seeds = set.intersection(*(set(by_domain.get(domain, {})) for domain in domains))
    return Cell(tuple(statistics.mean(by_domain[d][seed] for d in domains) for seed in sorted(seeds)))


def _emphasise(column: Mapping[str, Cell], method: str) -> str:
    means = {name: statistics.mean(cell.values) for name, cell in column.items() if cell.values}
    best = bool(means) and means.get(method) == max(means.values())
    return f"**{column[method]}**" if best else str(column[method])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1, help="runs at a time; the cores are shared among them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=["erm", "no_relations", "parse"], choices=list(ALGORITHMS))
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as in parse-dg train")
    parser.add_argument("--out", type=Path, default=Path("runs/table"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
