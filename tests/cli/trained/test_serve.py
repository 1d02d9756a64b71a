"""`parse-dg serve`: what cannot be used is refused in one line, before anything listens."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli import build_parser
from parse_dg.cli.trained.serve import RATE, _limits
from parse_dg.serve.limits import ServiceLimits
from tests.cli.conftest import Run, assert_refused


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (["--port", "70000"], ["port must be 0 to 65535, found 70000"]),
        (["--host", "no.such.host.invalid"], ["'no.such.host.invalid' is no address of this machine"]),
        (["--host", "203.0.113.7"], ["cannot listen at 203.0.113.7"]),
        (["--device", "tpu"], ["device 'tpu'"]),
        (["--max-upload", "0"], ["--max-upload must be more than 0"]),
        (["--rate", "-1"], ["rate must be 0 or more"]),
        (["--max-batch", "0"], ["max_batch must be at least 1"]),
        (["--timeout", "0"], ["timeout must be positive"]),
        (["--model", "nothing.safetensors"], ["no model at nothing.safetensors"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_used_is_one_line(run: Run, erm_run: Path, options: list[str], fragments: list[str]) -> None:
    said = run("serve", erm_run, *(["--port", 0] if "--port" not in options else []), *options)
    assert_refused(said, *fragments)
    assert said.out == ""


def test_no_model_and_no_run(run: Run, tmp_path: Path, erm_run: Path) -> None:
    assert_refused(run("serve", tmp_path / "nowhere", "--port", 0), "no model at")
    assert_refused(run("serve", tmp_path, "--model", erm_run / "model.safetensors"), str(tmp_path))


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "python_multipart"])
def test_a_missing_package_names_the_extra(
    run: Run, erm_run: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    plain = importlib.util.find_spec

    def find(name: str, *more: Any) -> Any:
        return None if name == missing else plain(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert_refused(run("serve", erm_run, "--port", 0), f"this needs {missing}: pip install 'parse-dg[serve]'")


def test_without_options_the_limits_are_the_usual_ones() -> None:
    plain = build_parser().parse_args(["serve", "RUN"])
    assert _limits(plain, shared=False) == ServiceLimits()
    assert _limits(plain, shared=True) == ServiceLimits(rate=RATE)
    asked = build_parser().parse_args(["serve", "RUN", "--rate", "0", "--max-batch", "8", "--max-upload", "1"])
    assert _limits(asked, shared=True) == ServiceLimits(max_batch=8, max_bytes=2**20)
