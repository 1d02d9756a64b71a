"""Speed, as ratios of things measured side by side in one run: `make bench`.

    python -m benchmarks                                  # everything, on the GPU if there is one
    python -m benchmarks --only layer,sparsemax --device cpu other.json

Absolute times depend on the machine and on what else it does, ratios much less: they are what is claimed.
"""

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from benchmarks import (
    calls,
    data_path,
    domainbed,
    growth,
    inference,
    methods,
    optimiser,
    sparsemax,
    step,
    structural_layer,
    together,
)
from benchmarks.report import LEGEND, Row, Section, Skipped, line, table, write
from benchmarks.setting import QUICK, Setting, Sizes

TABLE_WIDTH = 170
"""Where the output is no terminal."""


class Question(NamedTuple):
    """A part of the benchmark."""

    title: str
    rows: Callable[[Setting], Iterator[Row | Skipped]]


QUESTIONS: dict[str, Question] = {
    "step": Question(step.TITLE, step.rows),
    "frozen": Question(step.FROZEN, step.frozen_rows),
    "layer": Question(structural_layer.TITLE, structural_layer.rows),
    "sparsemax": Question(sparsemax.TITLE, sparsemax.rows),
    "optimiser": Question(optimiser.TITLE, optimiser.rows),
    "growth": Question(growth.TITLE, growth.rows),
    "data": Question(data_path.TITLE, data_path.rows),
    "together": Question(together.TITLE, together.rows),
    "domainbed": Question(domainbed.TITLE, domainbed.rows),
    "methods": Question(methods.TITLE, methods.rows),
    "calls": Question(calls.TITLE, calls.rows),
    "inference": Question(inference.TITLE, inference.rows),  # last: its CUDA graphs may leave a GPU unusable
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=TABLE_WIDTH)
    setting = Setting(device=options.device, sizes=QUICK if options.quick else Sizes())
    hardware = describe_hardware(setting.device)
    sections: dict[str, Section] = {}
    for name in options.only:
        sections[name] = answer(QUESTIONS[name], setting, console, options.limit)
        write(options.out, hardware, sections)
    for section in sections.values():
        console.print(table(section))
    console.print(LEGEND, markup=False, highlight=False)
    console.print(", ".join(hardware.values()), markup=False, highlight=False)
    seconds = sum(section.seconds for section in sections.values())
    console.print(f"{seconds:.0f} seconds; written to {options.out}")
    return int(any(section.error for section in sections.values()))


def answer(question: Question, setting: Setting, console: Console, limit: int = 0) -> Section:
    """The section of one question. An error ends it, not the run: what was measured before is kept. So does a limit
    in seconds.
    """
    section = Section(question.title)
    console.print(f"[bold]{question.title}")
    start = time.perf_counter()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(limit)
    try:
        for row in question.rows(setting):
            section.rows.append(row)
            console.print(f"  {line(row)}", markup=False, highlight=False)
    except Exception as error:
        section.error = f"{type(error).__name__}: {error}"
        console.print_exception()
    finally:
        signal.alarm(0)
    section.seconds = time.perf_counter() - start
    return section


def _too_long(*_: object) -> None:
    raise TimeoutError("not answered within --limit")


def describe_hardware(device: torch.device) -> dict[str, str]:
    """What the ratios were measured on."""
    gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if gpu else _processor(),
        "threads": f"{torch.get_num_threads()} threads",
        "torch": f"torch {torch.__version__}",
        "python": f"Python {platform.python_version()}",
        "load": f"load {os.getloadavg()[0]:.1f} at the start",  # others at work on the same cores blur everything
        "precision": "bf16 autocast (networks), float32 (layers)" if gpu else "float32",
    }


def _processor() -> str:
    """The CPU's name, where Linux tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", default=Path("bench.json"), help="the JSON file")
    parser.add_argument(
        "--only", type=_names, default=list(QUESTIONS), help=f"some of {','.join(QUESTIONS)}, separated by commas"
    )
    parser.add_argument("--device", type=_device, default="auto", help="auto (a GPU if there is one), cpu or cuda")
    parser.add_argument("--limit", type=int, default=0, metavar="SECONDS", help="for each question; 0: none")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only shows that everything runs")
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if wrong := [name for name in names if name not in QUESTIONS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(wrong)}; valid are {', '.join(QUESTIONS)}")
    return names


def _device(name: str) -> torch.device:
    available = torch.cuda.is_available()
    if name not in ("auto", "cpu", "cuda") or (name == "cuda" and not available):
        raise argparse.ArgumentTypeError(f"found {name}; valid are auto, cpu{', cuda' if available else ''}")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


if __name__ == "__main__":
    sys.exit(main())
