"""The start of a run, drawn again to be compared with its end."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from parse_dg.algorithms.parse import Parse
from parse_dg.cli.show.measures import measure_tables
from parse_dg.deploy.model_file import load_model
from parse_dg.explain.measures.measure import measure_run
from parse_dg.runs.opened import open_run
from parse_dg.runs.run import build_start, build_trainer, execute, prepare
from tests.conftest import Tiny
from tests.runs.helpers import CPU, quiet

FEW = {"algorithm__composition__start": "simplex", "algorithm__composition__start_entries": 2}
"""Classes start with few relations."""


def test_the_start_is_drawn_again(tiny: Tiny, tmp_path: Path) -> None:
    """With a rate that changes Λ within a few steps."""
    rates = {"optimizer__composition_rate": 0.02, "optimizer__composition_warmup_steps": 0}
    config = tiny(**FEW, **rates, algorithm__sparsity=1.0, seed=3)
    execute(config, tmp_path / "run", quiet)
    found = measure_run(open_run(tmp_path / "run", device="cpu"), swaps=1).selected
    benchmark, split = prepare(config)
    started = build_trainer(config, benchmark, split, CPU).algorithm
    assert isinstance(started, Parse)
    with torch.no_grad():
        start = started.eval().network.structure.composition.active()
        before = torch.zeros(8, started.network.structure.vocabulary.size, dtype=torch.bool)
        before[:, start.applications] = start.weights > 0
        end = load_model(tmp_path / "run").parse_network().structure.composition.active()
    after = torch.zeros_like(before)
    after[:, end.applications] = end.weights > 0
    assert found.relations == pytest.approx(float(after.sum() / 8))
    assert found.relations_at_start == pytest.approx(float(before.sum() / 8))
    assert found.after_start == pytest.approx(float((after & ~before).sum() / after.sum()))
    assert 0 < found.after_start < 1
    assert found.first_five == pytest.approx(float(end.weights.sort(descending=True).values[:, :5].sum() / 8))


def test_the_start_needs_no_weights_file(tiny: Tiny, tmp_path: Path) -> None:
    """A backbone's weights change no draw, and are not read again."""
    drawn = build_start(tiny(), 8, 3)
    assert isinstance(drawn, Parse)
    state = {name: torch.ones_like(value) for name, value in drawn.network.backbone.state_dict().items()}
    save_file(state, tmp_path / "weights.safetensors")
    config = tiny(training__steps=1, backbone__weights=str(tmp_path / "weights.safetensors"))
    loaded = build_start(config, 8, 3)
    assert isinstance(loaded, Parse)
    ours, theirs = (each.network.structure.state_dict() for each in (drawn, loaded))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    execute(config, tmp_path / "run", quiet)
    there = measure_run(open_run(tmp_path / "run", device="cpu"), swaps=1)
    (tmp_path / "weights.safetensors").unlink()
    assert measure_run(open_run(tmp_path / "run", device="cpu"), swaps=1) == there


def test_a_model_of_another_vocabulary_has_no_start(parse_run: Path, tiny: Tiny, tmp_path: Path) -> None:
    execute(tiny(training__steps=1, algorithm__primitives__count=5), tmp_path / "other", quiet)
    found = measure_run(open_run(parse_run, model=tmp_path / "other" / "model.safetensors", device="cpu"), swaps=1)
    assert (found.selected.relations_at_start, found.selected.after_start) == (None, None)
    assert found.selected.relations > 0
    assert measure_tables(found)[1].rows[0][2:4] == ("–", "–")
