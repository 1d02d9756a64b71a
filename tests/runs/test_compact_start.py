"""What was in use before training, said beside what compaction leaves."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from parse_dg.cli.show.display import print_compaction
from parse_dg.errors import InputError
from parse_dg.runs.compact import compact_run
from parse_dg.runs.opened import open_run
from parse_dg.runs.run import execute
from tests.conftest import Tiny
from tests.runs.helpers import quiet, read, without_digests


def test_what_was_in_use_before_training(tiny: Tiny, tmp_path: Path) -> None:
    """A start on the presence of all K primitives uses K applications, of a vocabulary of many more."""
    config = tiny(training__steps=1, algorithm__composition__start="presence", algorithm__primitives__count=5)
    execute(config, tmp_path / "run", quiet)
    outcome = compact_run(open_run(tmp_path / "run", device="cpu"), None, 0.0)
    assert outcome.report.applications.at_start == 5 < outcome.report.applications.before
    assert read(outcome.report_path)["applications"]["at_start"] == 5


def test_the_start_of_a_model_from_elsewhere_is_not_known(parse_run: Path, tiny: Tiny, tmp_path: Path) -> None:
    """A file alone says nothing of it; one in a run's folder only if it is of the run's vocabulary, and whole."""
    folder = without_digests(Path(shutil.copytree(parse_run, tmp_path / "run")))
    assert compact_run(open_run(folder, device="cpu"), None, 0.0).report.applications.at_start
    with pytest.raises(InputError, match="is not a run"):
        compact_run(open_run(folder / "model.safetensors", device="cpu"), None, 0.0)
    execute(tiny(training__steps=1, algorithm__primitives__count=5), tmp_path / "other", quiet)
    for file in (folder / "compact.safetensors", tmp_path / "other" / "model.safetensors"):
        shutil.copy(file, folder / "model.safetensors")
        outcome = compact_run(open_run(folder, device="cpu"), tmp_path / "small.safetensors", 0.0)
        assert outcome.report.applications.at_start is None
        assert read(outcome.report_path)["applications"]["at_start"] is None
        printed = Console(record=True, width=200)
        print_compaction(printed, outcome)
        assert "at the start" not in printed.export_text()
