"""`parse-dg serve` under load: errors, latency, and throughput ÷ calling the model directly in batches.

    python -m benchmarks.serve_load RUN [--seconds 60] [--clients 32] [--json FILE]

The real command is started as a process of its own. Clients keep their connections to 127.0.0.1 open; each sends
one image file after another to POST /predict and waits for its answer. They run in this process, on the same cores
as the service, and their work counts against it: the table says how much of a core each side used.

After the load, the model is called directly in this process, in turns with the service, some seconds each, several
times over: whatever slows the machine for a while slows all of them. Direct calls have batches as large as the
service makes at most, once from the same encoded files, decoded in threads as `parse-dg predict` does, and once
from pixels that have been decoded and resized already.
"""

import argparse
import asyncio
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.report import quartiles
from parse_dg.data.benchmarks import open_benchmark
from parse_dg.data.images import decode
from parse_dg.deploy.predictor import load
from parse_dg.errors import InputError
from parse_dg.runs.folder import read_config
from parse_dg.serve.limits import ServiceLimits

IMAGES = 256
BATCH = ServiceLimits().max_batch
ROUNDS = 8
"""In each, the service and both direct calls take turns."""
SIDES = {
    "service": "the service",
    "encoded": f"direct from encoded files in batches of {BATCH}",
    "pixels": f"direct from decoded pixels in batches of {BATCH}",
}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """What the clients saw."""

    seconds: float = 0.0
    client_cpu: float = 0.0
    """Of this process, in seconds."""
    latencies: list[float] = field(default_factory=list)
    """Of answers with the class that the model gives, in seconds."""
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Images a second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def example_images(run: Path, size: int, count: int) -> tuple[list[bytes], str]:
    """Image files, and what they are: of all domains of the run's benchmark where it is here, else noise."""
    try:
        benchmark = open_benchmark(read_config(run).data)
    except InputError:
        draw = np.random.default_rng(0)
        return [_png(draw.integers(0, 256, (size, size, 3), np.uint8)) for _ in range(count)], "noise"
    each = count // len(benchmark.domains)
    files = []
    for domain in benchmark.domains:
        for index in np.linspace(0, len(domain.labels) - 1, each).astype(int):
            files.append(_png(np.array(domain.images[index])))
    return files, Path(benchmark.name).name


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@contextmanager
def serving(path: Path) -> Iterator[tuple[int, int]]:
    """The port and the process of `parse-dg serve`, ended with SIGTERM as it should be."""
    command = [sys.executable, "-m", "parse_dg", "serve", str(path), "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.search(r":(\d+)/", said)
            if found is None:
                raise InputError(f"the service did not start: {said.strip() or 'see above'}")
            yield int(found[1]), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        if code:
            raise RuntimeError(f"the service ended with exit code {code}")


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def put_under_load(
    port: int, files: Sequence[bytes], classes: Sequence[str], clients: int, seconds: float
) -> Load:
    """Some clients for some seconds; `classes` is what must be answered."""
    found = Load()
    started, cpu = time.perf_counter(), time.process_time()
    deadline = started + seconds
    await asyncio.gather(*(_client(port, files, classes, found, deadline, 7 * n) for n in range(clients)))
    found.seconds, found.client_cpu = time.perf_counter() - started, time.process_time() - cpu
    return found


async def _client(
    port: int, files: Sequence[bytes], classes: Sequence[str], found: Load, deadline: float, number: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < deadline:
        number = (number + 1) % len(files)
        started = time.perf_counter()
        try:
            answer = await _post(reader, writer, files[number])
            wrong = "" if answer["predicted"] == classes[number] else "another class"
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            wrong = f"{type(error).__name__}: {error}"
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if wrong:
            found.errors[wrong] = found.errors.get(wrong, 0) + 1
        else:
            found.latencies.append(time.perf_counter() - started)
    writer.close()
    await writer.wait_closed()


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> dict[str, Any]:
    """As little HTTP as there can be: what a client costs is taken from the service."""
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(data) + data)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", answer)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ValueError(f"{answer[9:12].decode()}: {body.decode()}")
    return dict(json.loads(body))


def rate_of(call: Callable[[], object], images: int, seconds: float) -> float:
    """Images a second of a call that is repeated for some seconds."""
    call()
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        call()
        done += images
    return done / (time.perf_counter() - started)


def measure(path: Path, run: Path, clients: int, seconds: float, images: int = IMAGES) -> dict[str, Any]:
    """All numbers, in one run."""
    predictor = load(path, "cpu")
    encoded, what = example_images(run, predictor.image_size, images)
    with tempfile.TemporaryDirectory() as folder, serving(path) as (port, pid):
        files = [Path(folder) / f"{number}.png" for number in range(len(encoded))]
        for file, data in zip(files, encoded, strict=True):
            file.write_bytes(data)
        pixels = np.stack([decode(file, predictor.model.spec.framing) for file in files])
        classes = [found.predicted for found in predictor.predict(pixels)]

        def ask(clients: int, seconds: float) -> Load:
            return asyncio.run(put_under_load(port, encoded, classes, clients, seconds))

        ask(clients, min(2.0, seconds))  # warms up
        alone = ask(1, seconds / 20)
        before, cpu = _health(port), cpu_seconds(pid)
        found = ask(clients, seconds)
        cpu, after = cpu_seconds(pid) - cpu, _health(port)
        turn = seconds / 30
        ways: dict[str, Callable[[], float]] = {
            "service": lambda: ask(clients, turn).rate,
            "encoded": lambda: rate_of(lambda: predictor.predict(files, batch=BATCH), len(files), turn),
            "pixels": lambda: rate_of(lambda: predictor.predict(pixels, batch=BATCH), len(files), turn),
        }
        rounds = [{name: way() for name, way in ways.items()} for _ in range(ROUNDS)]
    passes = after["batches"] - before["batches"]
    return {
        "model": f"{path.absolute().parent.name}/{path.name}" if path.is_file() else path.name,
        "method": predictor.model.spec.algorithm.name,
        "images": f"{len(files)} PNG files of {what}, {statistics.median(map(len, encoded)):.0f} bytes (median)",
        "cores": len(os.sched_getaffinity(0)),
        "threads_of_a_pass": torch.get_num_threads(),
        "clients": clients,
        "seconds": round(found.seconds, 1),
        "answers": len(found.latencies),
        "errors": found.errors | alone.errors,
        "images_per_second": round(found.rate, 1),
        "p50_ms": round(found.percentile(0.5), 1),
        "p99_ms": round(found.percentile(0.99), 1),
        "images_per_pass": round((after["images"] - before["images"]) / passes, 1),
        "service_cores": round(cpu / found.seconds, 2),
        "client_cores": round(found.client_cpu / found.seconds, 2),
        "one_client_p50_ms": round(alone.percentile(0.5), 2),
        "turns": {name: [round(each[name], 1) for each in rounds] for name in ways},
        "service_over_direct": {
            name: _ratio([each["service"] / each[name] for each in rounds]) for name in ("encoded", "pixels")
        },
    }


def _ratio(values: Sequence[float]) -> dict[str, float]:
    low, high = quartiles(values)
    return {"median": round(statistics.median(values), 3), "low": round(low, 3), "high": round(high, 3)}


def _health(port: int) -> dict[str, Any]:
    with urlopen(f"http://127.0.0.1:{port}/health") as answer:
        return dict(json.load(answer))


def table(found: dict[str, Any]) -> Table:
    """The numbers with what they are."""
    made = Table(title=f"parse-dg serve, {found['clients']} clients, {found['seconds']} s", title_justify="left")
    made.add_column("what")
    made.add_column("found", justify="right")
    rows = {
        "model": f"{found['model']} ({found['method']})",
        "images": found["images"],
        "cores of the machine, threads of a pass": f"{found['cores']}, {found['threads_of_a_pass']}",
        "answers, errors": f"{found['answers']:,}, {sum(found['errors'].values()):,}",
        "throughput": f"{found['images_per_second']:,} images/s",
        "latency: half of the answers within": f"{found['p50_ms']} ms",
        "latency: 99% within": f"{found['p99_ms']} ms",
        "images in a pass of the network, mean": found["images_per_pass"],
        "cores used by the service, by the clients": f"{found['service_cores']}, {found['client_cores']}",
        "latency of one client alone, median": f"{found['one_client_p50_ms']} ms",
    }
    for name, value in found["turns"].items():
        rows[f"in {ROUNDS} turns: {SIDES[name]}, median"] = f"{statistics.median(value):,.1f} images/s"
    for name, ratio in found["service_over_direct"].items():
        rows[f"service ÷ {SIDES[name]}, median (quartiles)"] = "{median} ({low} to {high})".format(**ratio)
    for name, value in rows.items():
        made.add_row(name, str(value))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help="another model file, such as RUN/compact.safetensors"
    )
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    options = parser.parse_args()
    found = measure(options.model or options.run, options.run, options.clients, options.seconds)
    console = Console()
    console.print(table(found), soft_wrap=True)
    for message, count in found["errors"].items():
        console.print(f"{count} × {message}", markup=False)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return 1 if found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
