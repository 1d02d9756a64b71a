"""The public names, and what is not imported before it is needed."""

import os
import resource
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "numpy", "rich", "jaxtyping", "PIL", "safetensors", "sympy")
HELP = """
import contextlib, io, sys
from parse_dg.cli import build_parser, main

def visit(parser, path):
    for action in parser._actions:
        for name, inner in (action.choices or {}).items() if action.nargs == "A..." else ():
            visit(inner, [*path, name])
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        main([*path, "--help"])
    assert "usage: " + " ".join(["parse-dg", *path]) in text.getvalue()

visit(build_parser(), [])
"""


def imported(code: str) -> list[str]:
    """Which of the slow modules a new Python has imported after this."""
    code += f"\nimport sys\nprint(*(set({HEAVY}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.split()


def test_importing_the_package_waits_for_nothing() -> None:
    assert imported("import parse_dg; parse_dg.__version__, dir(parse_dg), parse_dg.InputError") == []


def test_the_help_of_every_command_waits_for_nothing() -> None:
    assert imported(HELP) == []


def test_help_takes_little_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "parse_dg", "train", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.9  # 0.15 s on an idle machine


def test_a_prediction_imports_no_algebra_and_explain_is_the_function_whatever_comes_first(erm_run: Path) -> None:
    code = "import parse_dg.explain.contrast\nassert parse_dg.explain.__module__ == 'parse_dg.explain.explanation'"
    code += f"\nfrom parse_dg.deploy.predictor import load\nload({str(erm_run)!r}, 'cpu')"
    assert "sympy" not in imported(code)  # PyTorch does, half a second long, for what need not be used


def test_threads_that_wait_soon_sleep_unless_the_user_has_said_how() -> None:
    code = "import parse_dg, os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('KMP_BLOCKTIME'))"
    for given, expected in (
        ({}, "1000 1"),
        ({"GOMP_SPINCOUNT": "7"}, "7 1"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None None"),
    ):
        others = {name: value for name, value in os.environ.items() if not name.startswith(("OMP", "GOMP", "KMP"))}
        done = subprocess.run(
            [sys.executable, "-c", code], env=others | given, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected
