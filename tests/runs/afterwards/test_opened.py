"""A run that is opened: what is asked of it, and what is missing only to who asks for it."""

import shutil
from pathlib import Path

import pytest

from parse_dg.deploy.model_file import load_model
from parse_dg.errors import InputError
from parse_dg.runs.afterwards.opened import open_run
from tests.parts import refusal
from tests.runs.helpers import checks, read


def test_a_run_is_its_configuration_result_model_and_images(parse_run: Path) -> None:
    run = open_run(str(parse_run), device="cpu")
    assert run.config.method == "parse"
    assert run.result.to_dict() == read(parse_run / "result.json")
    assert [check.to_dict() for check in run.checks] == checks(parse_run)
    assert run.predictor.model is run.model
    assert run.classes == run.benchmark.classes
    assert [subset.domain.name for subset in run.held_out] == ["photo", "cartoon", "paint", run.target]
    assert run.split is run.split
    share = f"{100 * run.result.target.accuracy:.1f}%"
    assert repr(run) == f"OpenedRun(parse on blueprints: {share} on sketch; {str(parse_run)!r})"


def test_a_model_file_alone_is_a_model(parse_run: Path) -> None:
    file = parse_run / "model.safetensors"
    run = open_run(file, device="cpu")
    assert run.classes == load_model(file).spec.classes
    assert repr(run) == f"OpenedRun({str(file)!r})"
    with pytest.raises(InputError, match="is not a run: expected a folder with"):
        run.benchmark  # noqa: B018
    assert "is not a run" in refusal(open_run, file, model=file)


def test_what_is_not_there_is_missed_by_who_asks_for_it(erm_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(erm_run, tmp_path / "run"))
    for name in ("result.json", "model.safetensors"):
        (folder / name).unlink()
    run = open_run(folder)
    assert "not finished" in repr(run)
    assert run.split.target.domain.name == "sketch"
    with pytest.raises(InputError, match="is not finished: `parse-dg train` with the same options goes on"):
        run.result  # noqa: B018
    with pytest.raises(InputError, match="no model at"):
        run.predictor  # noqa: B018
