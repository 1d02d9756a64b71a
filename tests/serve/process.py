"""The real command as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-m", "parse_dg", "serve"]


@dataclass
class Process:
    """`parse-dg serve`, listening."""

    running: "subprocess.Popen[str]"
    said: str
    port: int

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.running.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def end(self, number: int = signal.SIGTERM, wait: float = 40) -> tuple[int, str, str]:
        """Send a signal; the exit code, and what was said on standard output and error since the start."""
        self.running.send_signal(number)
        out, err = self.running.communicate(timeout=wait)
        return self.running.returncode, self.said + out, err


@contextmanager
def serving(run: Path, *options: object) -> Iterator[Process]:
    """Until the end, unless it is ended before."""
    command = [*COMMAND, str(run), "--port", "0", "--device", "cpu", *map(str, options)]
    with started(command, os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}) as process:
        yield process


@contextmanager
def started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Process]:
    """A command that serves, once it says where."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, **pipes) as running:  # type: ignore[call-overload]
        try:
            said = running.stdout.readline()
            found = re.search(r"http://.*:(\d+)/", said)
            assert found, running.stderr.read()
            yield Process(running, said, int(found[1]))
        finally:
            running.kill()
