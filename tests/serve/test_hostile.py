"""Requests that are broken or meant to harm: each is refused in one line, and the service does not mind."""

import json
import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.serve import attacks, attacks_on_http
from tests.serve.attacks import GOOD, MAX_UPLOAD, Attack
from tests.serve.process import Process, serving

MEBIBYTE = 2**20
TIMEOUT = 1
ON_IMAGES = ("bombs", "truncated", "no_images")
ON_HTTP = ("types", "forms", "headers", "addresses", "lengths", "slow", "strangers", "queries")
KINDS = [(attacks, name) for name in ON_IMAGES] + [(attacks_on_http, name) for name in ON_HTTP]
ATTACKS = [attack for module, name in KINDS for attack in getattr(module, name)()]


def attack(port: int, each: Attack) -> bytes:
    """All that is answered until the service closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(each.request)
            for letter in each.drip:
                time.sleep(each.pause)
                connection.sendall(bytes([letter]))
        except ConnectionError:
            pass  # it has been cut off
        connection.settimeout(8)
        return read_answer(connection)


def read_answer(connection: socket.socket) -> bytes:
    """One answer, of which the header says how long it is; less where the connection is closed before."""
    found = b""
    try:
        while len(split(found)[1]) != split(found)[2] and (chunk := connection.recv(65536)):
            found += chunk
    except ConnectionError:
        pass
    return found


def split(answer: bytes) -> tuple[bytes, bytes, int]:
    """The head and the body of the first answer, and how long the body should be."""
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return (head, body[: int(length[1])], int(length[1])) if length else (head, b"", -1)


def wrong(each: Attack, answer: bytes) -> str | None:
    """What is wrong with the answer, if anything is."""
    if not answer:
        return None if each.closed else "no answer"
    head, body, _ = split(answer)
    if not re.match(rb"HTTP/1\.1 4\d\d ", head):
        return f"{head[:20]!r}: {body[:200]!r}"
    try:
        said = json.loads(body)
    except ValueError:
        return f"no JSON: {body[:200]!r}"
    if said.keys() != {"error"} or not said["error"] or len(said["error"]) > 400 or "\n" in said["error"]:
        return f"not one line: {said}"
    return "a file of this machine" if b"root:" in body else None


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is read from /proc")
def test_five_hundred_attacks(parse_run: Path) -> None:
    assert len(ATTACKS) >= 500
    assert len({each.name for each in ATTACKS}) == len(ATTACKS)
    options = ("--timeout", TIMEOUT, "--max-upload", MAX_UPLOAD / MEBIBYTE)
    with serving(parse_run, *options) as process, ThreadPoolExecutor(24) as pool:
        for part in (ATTACKS[::7], ATTACKS):  # the first time memory is taken that is kept for later
            answers = list(pool.map(lambda each: attack(process.port, each), part))
            found = {each.name: wrong(each, answer) for each, answer in zip(part, answers, strict=True)}
            assert {name: problem for name, problem in found.items() if problem} == {}
            if part is not ATTACKS:
                before = process.memory()
        assert process.memory() < before + 48 * MEBIBYTE
        assert_well(process)
        code, _, err = process.end()
        assert (code, err) == (0, "")


def assert_well(process: Process) -> None:
    """It is still the one process, it answers, and nothing waits."""
    assert process.running.poll() is None
    with httpx.Client(base_url=f"http://127.0.0.1:{process.port}", trust_env=False, timeout=20) as client:
        answer = client.post("/predict?explain=true", files={"image": GOOD})
        assert answer.status_code == 200
        assert answer.json()["explanation"]["relations"]
        assert client.get("/health").json()["queue"]["waiting"] == 0
