"""What is measured of a run: of which images, in one pass, and with numbers that agree with other commands."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from parse_dg.algorithms.parse import Parse
from parse_dg.cli.show.measures import measure_tables, measures_csv
from parse_dg.data.blueprints.benchmark import PARTS
from parse_dg.data.splits import Subset
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import load_model, save_model
from parse_dg.errors import InputError
from parse_dg.explain.measures import measure
from parse_dg.explain.measures.images import locate, part_annotations, true_centres
from parse_dg.explain.measures.measure import RunMeasures, measure_run
from parse_dg.runs.afterwards.opened import evaluate_run, open_run
from parse_dg.runs.run import build_start, build_trainer, execute, prepare
from tests.conftest import Tiny
from tests.data.intake.test_library import CLASSES, plant
from tests.data.public.cub_folder import Bird, write_cub
from tests.runs.helpers import CPU, quiet


@pytest.fixture(scope="module")
def found(parse_run: Path) -> RunMeasures:
    return measure_run(open_run(parse_run, device="cpu"))


def test_accuracies_are_those_of_evaluate(found: RunMeasures, parse_run: Path) -> None:
    known = {row.domain: row.accuracy for row in evaluate_run(open_run(parse_run, device="cpu"))}
    for each in found.domains:
        assert each.structure.whole == known[each.domain].accuracy
        assert each.collapse.right.images == known[each.domain].correct
        assert each.collapse.all.images == known[each.domain].images


def test_every_domain_is_asked_for_the_primitives_of_the_sources(found: RunMeasures, parse_run: Path) -> None:
    parts = [each.followed_parts.parts for each in found.domains if each.followed_parts]
    given = [[part.primitive for part in each] for each in parts]
    assert len(given) == 4
    assert all(each == given[0] for each in given)
    assert len(set(given[0])) == len(PARTS)
    run = open_run(parse_run, device="cpu")
    sources = [(locate(run.model, subset), true_centres(run, subset)) for subset in run.held_out[:-1]]
    near = np.concatenate(
        [
            np.linalg.norm((each.centre.numpy()[:, :, None] - true[:, None]) * 63 / 2, axis=-1) <= 6
            for each, true in sources
            if true is not None
        ]
    )
    best = near.mean(0).max()  # the first to be given away
    shares = [near[:, primitive, part].mean() for part, primitive in enumerate(given[0])]
    assert max(shares) == best


def test_it_is_repeatable_and_valid_json(found: RunMeasures, parse_run: Path) -> None:
    again = measure_run(open_run(parse_run, device="cpu"))
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert text == json.dumps(again.to_dict(), allow_nan=False)
    assert json.loads(text)["domains"][3]["collapse"]["wrong"]["images"] == found.domains[3].collapse.wrong.images


def test_every_image_is_read_once(parse_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[tuple[str, int]] = Counter()

    def counting(model: Any, subset: Subset, seen: Any) -> Any:
        read.update((subset.domain.name, index) for index in subset.indices.tolist())
        return locate(model, subset, seen)

    monkeypatch.setattr(measure, "locate", counting)
    told: list[tuple[str, int, int]] = []
    measure.measure_run(open_run(parse_run, device="cpu", progress=lambda *what: told.append(what)))
    assert set(read.values()) == {1}
    assert len(read) == 64
    assert [what for what in told if what[0].startswith("reading")] == [
        ("reading photo", 8, 8),
        ("reading cartoon", 8, 8),
        ("reading paint", 8, 8),
        ("reading sketch", 40, 40),
    ]


def test_a_compact_model_measures_the_same(found: RunMeasures, parse_run: Path, tmp_path: Path) -> None:
    smaller, _ = compact(load_model(parse_run))
    save_model(tmp_path / "compact.safetensors", smaller.spec, smaller.algorithm.state_dict())
    again = measure_run(open_run(parse_run, model=tmp_path / "compact.safetensors", device="cpu"))
    assert again.to_dict() == found.to_dict()


def test_none_of_the_images_was_trained_on(parse_run: Path) -> None:
    run = open_run(parse_run, device="cpu")
    trained = {(part.domain.name, index) for part in run.split.training for index in part.indices.tolist()}
    looked_at = {(part.domain.name, index) for part in run.held_out for index in part.indices.tolist()}
    assert trained.isdisjoint(looked_at)


def test_own_images_have_no_parts(tiny: Tiny, tmp_path: Path) -> None:
    place = plant(tmp_path / "own", images=10, side=(12, 9))
    settings = {"data__benchmark": str(place), "data__target": "fog", "data__image_size": 32}
    execute(tiny(training__steps=1, training__batch_per_domain=2, **settings), tmp_path / "run", quiet)
    found = measure_run(open_run(tmp_path / "run", device="cpu"), swaps=1)
    assert found.image_size == 32
    assert all(each.localisation is None for each in found.domains)
    assert found.to_dict()["domains"][0]["localisation"] is None
    assert found.to_dict()["domains"][0]["followed_parts"] is None
    titles = [table.title for table in measure_tables(found)]
    assert len(titles) == 5
    assert not any("Localisation" in title for title in titles)
    _parts_may_be_marked_in_own_images(tmp_path)


def _parts_may_be_marked_in_own_images(folder: Path) -> None:
    """The same class and file in two domains is the same photograph."""
    photographs = [f"{name}/{n}" for name in CLASSES for n in range(10)]
    birds = {name: Bird(n, (20, 10), (0, 0, 3, 4), ((n, 5.0),)) for n, name in enumerate(photographs)}
    run = open_run(folder / "run", device="cpu")
    found = part_annotations(run, write_cub(folder / "cub", birds, ("beak",)))
    for subset, parts in zip(run.held_out, found, strict=True):
        assert len(parts.places) == len(subset.indices)
        for n, (x, _) in zip(subset.indices, parts.places[:, 0].tolist(), strict=True):
            assert subset.domain.ids[n] == f"{subset.domain.name}/{photographs[int(x)]}"


def test_a_model_of_other_images_is_refused(parse_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(parse_run, tmp_path / "run"))
    place = plant(tmp_path / "own", images=10)
    config = json.loads((folder / "config.json").read_text())
    config["data"] |= {"benchmark": str(place), "target": "fog"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "split.json").unlink()
    (folder / "result.json").unlink()
    with pytest.raises(InputError, match="a model of 8 classes and 64 pixels: expected those of own"):
        measure_run(open_run(folder, device="cpu"))


def test_tables_say_what_their_numbers_are(found: RunMeasures) -> None:
    tables = measure_tables(found)
    structure, selected, collapse, evidence, consistency, localisation, followed = tables
    use = found.domains[3].structure
    assert structure.rows[3][:6] == (
        "sketch",
        "target: all images",
        "40",
        f"{100 * use.whole:.1f}%",
        "–",
        f"{100 * use.relations:.1f}%",
    )
    assert structure.rows[3][7] == f"{100 * use.swapped:.1f}% ± {100 * use.swapped_deviation:.1f}"
    chosen = found.selected
    assert selected.rows == (
        (
            "8",
            f"{chosen.relations:.1f}",
            f"{chosen.relations_at_start:.1f}",
            f"{100 * (chosen.after_start or 0):.1f}%",
            f"{100 * chosen.first_five:.1f}%",
        ),
    )
    of = found.domains[3].collapse
    assert collapse.rows[3][9] == f"{of.right.images} / {of.wrong.images}"
    assert collapse.rows[3][6] == f"{of.all.collapse:.2f}"
    assert "0.5 cells of the 16 × 16 heat map" in " ".join(collapse.notes)
    share = found.domains[3].evidence.on_evidence
    assert evidence.rows[3][4] == ("–" if share is None else f"{100 * share:.1f}%")
    assert evidence.rows[3][6] == f"{100 * (use.on_evidence or 0):.1f}%"
    assert consistency.rows[3][0] == "photo and sketch (target)"
    assert localisation.rows[0][3].endswith(" of 16")
    parts = found.domains[3].followed_parts
    assert parts is not None
    assert followed.header[3:9] == tuple(f"{part.part}, p{part.primitive}" for part in parts.parts)
    assert followed.rows[3][3] == f"{100 * parts.parts[0].share:.1f}%"
    assert followed.rows[3][9] == f"{parts.count:.2f} ({parts.count_by_chance:.2f})"
    assert "within 6 pixels of the part" in followed.notes[0]
    for table in tables:
        assert "sketch held out" in table.title
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_csv_has_every_number(found: RunMeasures) -> None:
    lines = [line.split(",") for line in measures_csv(found).splitlines()]
    assert lines[0] == ["measure", "where", "what", "value"]
    values = {tuple(line[:3]): line[3] for line in lines[1:]}
    assert len(values) == len(lines) - 1
    assert values["structure", "sketch", "whole"] == str(found.domains[3].structure.whole)
    assert values["collapse", "sketch", "wrong.collapse"] == str(found.domains[3].collapse.wrong.collapse)
    assert values["evidence", "sketch", "present"] == str(found.domains[3].evidence.present)
    parts = found.domains[3].followed_parts
    assert parts is not None
    assert values["followed_parts", "sketch", "head.share"] == str(parts.parts[1].share)
    assert values["followed_parts", "sketch", "head.primitive"] == str(parts.parts[1].primitive)
    assert values["selected", "", "relations"] == str(found.selected.relations)
    pair = found.consistency[3]
    assert values["consistency", "photo and sketch", "place"] == str(pair.place)
    assert values["consistency", "photo and sketch", "p7.place"] == str(pair.primitives[7].place)


# The start of a run, drawn again to be compared with its end


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
