"""The Blueprints table of docs/results.md: every domain held out in turn, several seeds, three methods.

    python -m benchmarks.blueprints                      # 4 domains × 3 seeds × 3 methods, in ./runs/table
    python -m benchmarks.blueprints --workers 16 --set training.steps=800

Finished runs are kept: the same command continues where it was stopped.
"""

import argparse
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean

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
from parse_dg.tables.estimate import Estimate
from parse_dg.tables.text_table import best_cells, markdown_table
from parse_dg.training.team import end_with


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
        open_benchmark(change(build_config("blueprints", options.methods[0]), settings).data, progress)
    threads = max(1, (os.cpu_count() or 1) // options.workers)
    results = _run_all(jobs, options.workers, threads, console)
    table = accuracy_table(results, DOMAINS)
    console.print(table, markup=False, soft_wrap=True)
    console.print(
        f"accuracy in % on all images of the held-out domain, mean ± standard deviation of {options.seeds}"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(table + "\n")
    write_json(options.out / "results.json", [result.to_dict() for result in results])


def _run_all(
    jobs: list[tuple[str, dict[str, object], Path]], workers: int, threads: int, console: Console
) -> list[RunResult]:
    results: dict[int, RunResult] = {}
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(workers, context, _begin, (threads, os.getpid())) as pool,
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


def _begin(threads: int, parent: int) -> None:
    torch.set_num_threads(threads)
    end_with(parent)


def _run(method: str, settings: dict[str, object], folder: Path) -> RunResult:
    config = change(build_config("blueprints", method), settings)
    return execute(config, folder, lambda step, check: None)


def accuracy_table(results: Sequence[RunResult], domains: Sequence[str]) -> str:
    """In Markdown: target accuracy by method and held-out domain, its mean over the domains inside every seed that
    has them all, and of those seeds the mean accuracy on held-out images of the sources. The best are bold.
    """
    runs: dict[str, dict[tuple[str, int], RunResult]] = defaultdict(dict)
    for result in results:
        runs[result.algorithm][result.target.domain, result.seed] = result
    rows, means = [], []
    for method, of in runs.items():
        seeds = sorted({seed for _, seed in of})
        whole = [seed for seed in seeds if all((domain, seed) in of for domain in domains)]
        targets = [{seed: of[d, seed].target.accuracy for seed in seeds if (d, seed) in of} for d in domains]
        average = {seed: fmean(of[d, seed].target.accuracy for d in domains) for seed in whole}
        validation = {seed: fmean(of[d, seed].validation_mean_accuracy for d in domains) for seed in whole}
        row = [Estimate(values) for values in (*targets, average, validation)]
        rows.append([method, *(each.say("std") for each in row)])
        means.append([each.mean for each in row])
    for number, column in best_cells(means):
        rows[number][column] = f"**{rows[number][column]}**"
    return markdown_table(["method", *domains, "mean of targets", "source validation"], rows)


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
