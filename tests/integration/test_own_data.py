"""Somebody's own images, by their path, through every command: from a folder or a list to a table."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
import torch

import parse_dg
from parse_dg.data.framing import Framing
from parse_dg.data.intake.library import open_manifest
from parse_dg.data.splits import whole
from parse_dg.runs.afterwards.opened import open_run
from parse_dg.runs.folder import read_config
from parse_dg.training.accuracy import predict
from tests.cli.conftest import Run, Said, assert_refused, result_of, run, snapshot, table
from tests.data.intake.damage import encoded, picture
from tests.data.intake.test_library import DOMAINS, plant, told, write_list

__all__ = ["run"]  # the fixture

SMALL = [
    *("--recipe", "blueprints", "--set", "data.image_size=32", "--set", "training.steps=2"),
    *("--set", "training.check_every=1", "--set", "training.batch_per_domain=2", "--set", "training.device=cpu"),
]


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folder and cache of its own for every test."""
    folder = tmp_path_factory.mktemp("kept")
    monkeypatch.setenv("PARSE_DG_DATA", str(folder / "data"))
    monkeypatch.setenv("PARSE_DG_CACHE", str(folder / "cache"))
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Three domains of two classes, ten images of each."""
    return plant(tmp_path / "own", images=10, side=(12, 9))


def trained(said: Said) -> Said:
    assert (said.code, said.err) == (0, ""), said.err
    return said


def counts(said: Said) -> dict[str, str]:
    """domain → correct/images, from the table that `evaluate` prints."""
    return {row[0]: row[-1] for row in table(trained(said).out)[1:]}


@pytest.mark.parametrize("kind", ["folder", pytest.param("csv", marks=pytest.mark.slow)])
def test_every_command_takes_a_path(
    kind: str, run: Run, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own if kind == "folder" else write_list(own, tmp_path / f"list.{kind}")
    name = path.stem
    trained(run("train", "--data", path.name, "--target", "fog", *SMALL))  # relative
    folder = tmp_path / "runs" / (name if kind == "folder" else path.name) / "parse" / "fog" / "seed0"
    result = result_of(folder)
    assert read_config(folder).data.benchmark == str(path)
    assert result["benchmark"] == {"name": name, "fingerprint": open_manifest(str(path)).fingerprint}
    assert (result["domains"], result["target"]["images"]) == (list(DOMAINS), 20)
    assert result["validation"].keys() == {"day", "night"}

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    full = counts(run("evaluate", folder))
    assert full["fog"] == f"{result['target']['correct']}/20"
    for domain, value in result["validation"].items():
        assert full[domain] == f"{value['correct']}/{value['images']}"
    assert "the same on 60 of all 60 images" in trained(run("compact", folder)).out
    assert counts(run("evaluate", folder, "--model", folder / "compact.safetensors")) == full
    assert list(counts(run("evaluate", folder, "--domain", "day"))) == ["day"]
    assert "all 60 files are there" in trained(run("data", "check", path)).out
    assert trained(run("data", "show", path, "--images", "2")).out.count("contact sheet: ") == 3
    assert name in trained(run("table", folder)).out

    again = run("train", "--data", os.path.relpath(path), "--target", "fog", *SMALL, "--out", folder)
    assert "finished: nothing to do" in trained(again).out  # the same run, from wherever one stands


def test_a_name_does_what_a_path_does(run: Run, own: Path, tmp_path: Path) -> None:
    trained(run("data", "add", "mine", own))
    for data in ("mine", str(own)):
        trained(run("train", "--algorithm", "erm", "--data", data, "--target", "day", *SMALL))
    by_name, by_path = (result_of(tmp_path / "runs" / data / "erm" / "day" / "seed0") for data in ("mine", "own"))
    assert by_name.pop("benchmark")["fingerprint"] == by_path.pop("benchmark")["fingerprint"]
    digests = [result.pop("files")["model.safetensors"] for result in (by_name, by_path)]
    assert digests[0] == digests[1]
    assert by_name == by_path


@pytest.mark.parametrize("fit", ["squash", "crop", "pad"])
def test_evaluation_and_prediction_see_the_same_of_an_image(fit: str, run: Run, own: Path, tmp_path: Path) -> None:
    """Domains joined, crops of a fixed size, centre crops: as the recipe `paper` has them; for every `data.fit`."""
    settings = ("data.crop_from=40", "data.evaluation=centre", "augment.crop=fixed", "training.batch=4")
    settings = (*settings, f"data.fit={fit}")
    words = [word for setting in settings for word in ("--set", setting)]
    trained(run("train", "--data", own, "--target", "fog", *SMALL, *words, "--out", tmp_path / "run"))
    model = parse_dg.load(tmp_path / "run", "cpu")
    assert model.model.spec.framing == Framing(size=32, fit=fit, resize_to=40)
    fog = open_run(tmp_path / "run", device="cpu").benchmark.domain("fog")
    assert fog.files is not None
    found = model.predict([fog.files.root / path for path in fog.files.paths])
    expected = predict(model.model.algorithm, whole(fog), torch.device("cpu")).logits
    assert torch.equal(torch.stack([each.logits for each in found]), expected)


def test_a_run_is_not_evaluated_on_other_images(
    run: Run, own: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained(run("train", "--data", "own", "--target", "fog", *SMALL))
    folder = Path("runs/own/parse/fog/seed0")
    first = counts(run("evaluate", folder))
    changed = own / "fog" / "cat" / "0.png"
    content, times = changed.read_bytes(), changed.stat()
    changed.write_bytes(encoded(picture(999, (12, 9)), "PNG"))
    before = snapshot(folder)
    for command in ("evaluate", "compact"):
        assert_refused(run(command, folder), "runs/own/parse/fog/seed0 is a run on other images: own had the")
    assert "is not what it was when it was last used (0 new images, 0 gone, 1 changed)" in told(caplog)
    assert snapshot(folder) == before

    trained(run("train", "--data", "own", "--target", "fog", *SMALL, "--out", "again"))  # on the new ones
    assert result_of(tmp_path / "again")["benchmark"] != result_of(folder)["benchmark"]
    assert_refused(run("table", folder, "again"), "two versions of own: their images differ")
    changed.write_bytes(content)
    os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert counts(run("evaluate", folder)) == first  # brought back
    assert_refused(run("evaluate", "again"), "is a run on other images")


def test_the_rest_is_trained_on(run: Run, own: Path, caplog: pytest.LogCaptureFixture) -> None:
    cat = own / "day" / "cat"
    (cat / "0.png").write_bytes((cat / "0.png").read_bytes()[:80])
    (cat / "1.png").write_bytes(b"")
    (cat / "text.jpg").write_text("text")
    (cat / "folder.jpg").mkdir()
    (cat / "nowhere.png").symlink_to(own / "gone")
    (cat / "out.png").symlink_to("/etc/hosts")
    (cat / os.fsdecode(b"\xff.png")).write_bytes(b"")
    for number, name in enumerate(("猫.png", "🐕 [red].png", "x" * 250 + ".png", "e\u0301.png", "UPPER.PNG")):
        (cat / name).write_bytes(encoded(picture(200 + number, (12, 9)), "PNG"))
    trained(run("train", "--algorithm", "erm", "--data", own, "--target", "day", *SMALL))
    assert result_of(Path("runs/own/erm/day/seed0"))["target"]["images"] == 20 - 2 + 5
    for line in (
        "4 files unreadable and left out: day/cat/0.png (it is cut short); day/cat/1.png (it is empty); "
        "day/cat/text.jpg (it is no JPEG",
        r"'day/cat/\udcff.png' (it is empty)",
        "1 file passed over, link leads nowhere: day/cat/nowhere.png",
        "1 file passed over, link leads out of the folder: day/cat/out.png",
    ):
        assert f"{own}: " in told(caplog)
        assert line in told(caplog)
    assert all(record.levelno < logging.ERROR for record in caplog.records)
    trained(run("evaluate", "runs/own/erm/day/seed0"))


def mistake(run: Run, *arguments: object) -> Said:
    said = run("train", *SMALL, "--out", "here", *arguments)
    assert said.out == ""
    assert not Path("here").exists()
    return said


def test_which_domain_is_held_out(run: Run, own: Path, tmp_path: Path) -> None:
    path = write_list(own, tmp_path / "own.jsonl")
    trained(run("data", "add", "mine", own))
    for data in (own, "own", path, "mine"):
        expected = "which domain is held out? Give --target, one of day, fog, night"
        assert_refused(mistake(run, "--data", data), expected)
        valid = "'Day': valid are day, fog, night"
        assert_refused(mistake(run, "--data", data, "--target", "Day"), valid)


def test_a_model_of_all_domains(run: Run, own: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trained(run("train", "--data", own, "--target", "none", *SMALL))
    folder = Path("runs/own/parse/none/seed0")
    result = result_of(folder)
    assert "target" not in result
    assert result["validation"].keys() == set(DOMAINS)
    assert "No domain is held out: all of them are sources" in " ".join(result["protocol"]["rules"])
    expected = {name: f"{value['correct']}/{value['images']}" for name, value in result["validation"].items()}
    assert counts(run("evaluate", folder)) == expected
    trained(run("predict", folder, own / "day" / "cat" / "0.png"))
    trained(run("report", folder, "--images", 1))
    assert "no number is of an unseen one" in (folder / "report.html").read_text()
    for command in ("measure", "compact"):
        assert_refused(run(command, folder), f"{folder} trained on all domains")
    assert_refused(run("table", folder), "none of the 1 runs is finished with a target")
    assert "trained on all domains, so that it has no target for a table: left out" in told(caplog)
    again = run("train", "--data", own, "--target", "none", *SMALL)
    assert "finished: nothing to do" in trained(again).out
    oracle = ("--set", "protocol.selection=oracle", "--set", "split.target_images=in")
    assert_refused(mistake(run, "--data", own, "--target", "none", *oracle), "with data.target=none")


def test_one_domain_trains_and_says_what_is_lost(run: Run, own: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = own / "day"
    for target in ([], ["--target", "day"]):
        assert_refused(mistake(run, "--data", one, *target), "has one domain, day: --target none trains on it")
    for method in ("coral", "dann", "mixup"):
        said = mistake(run, "--data", one, "--target", "none", "--algorithm", method)
        assert_refused(said, f"{method} compares source domains, and here is one, day: use one of erm, ")
    for method in ("erm", "parse"):
        caplog.clear()
        trained(run("train", "--data", one, "--target", "none", "--algorithm", method, *SMALL))
        assert result_of(Path("runs/day") / method / "none" / "seed0")["validation"].keys() == {"day"}
        assert (
            told(caplog).count("one source domain, day: what stays the same from domain to domain cannot be") == 1
        )


def test_nothing_trains_to_a_meaningless_figure(run: Run, own: Path, caplog: pytest.LogCaptureFixture) -> None:
    twice = ("--data", own, "--target", "day", "--target", "fog")
    assert_refused(mistake(run, *twice), "a run holds out one domain, found --target day and --target fog")
    for domain in ("day", "night"):
        shutil.rmtree(own / domain / "owl")
    alone = mistake(run, "--data", own, "--target", "fog")
    assert_refused(alone, "the images of own that train are all of one class, cat, which any model gets right")
    plant(own, ("day", "night"), ("dog",), images=10, first=300, side=(12, 9))
    trained(run("train", "--algorithm", "erm", "--data", own, "--target", "fog", *SMALL))
    assert "10 of the 20 images of the target fog cannot be learnt: no source domain has images of owl" in told(
        caplog
    )
    shutil.rmtree(own / "fog" / "cat")
    refused = mistake(run, "--data", own, "--target", "fog")
    assert_refused(refused, "the target fog has no image of a class that trains: expected some of cat, dog")


def test_every_mistake_is_one_line(run: Run, own: Path, tmp_path: Path) -> None:
    def refused(data: object, *fragments: str) -> None:
        for target in ([], ["--target", "fog"]):
            assert_refused(mistake(run, "--data", data, *target), *fragments)

    refused("nowhere", "no data set 'nowhere': here are blueprints;")
    refused("", "''")
    refused("x" * 300, "no data set 'xxx")
    refused("~no-such-user-here/x", "nothing at ~no-such-user-here/x")
    refused("no/where", "nothing at no/where: expected a folder domain/class/image")
    refused("pacs", "pacs is not on this machine yet")
    refused(own / "day" / "cat", "expected domain/class/image or class/image in", "images without a class folder")
    refused(own / "day" / "cat" / "0.png", "0.png is neither a folder nor a .csv, .json or .jsonl list")
    plant(tmp_path / "deep" / "data")
    refused("deep", "found only data; if the domains are inside it, give that folder")
    shutil.make_archive("own", "zip", own)
    refused("own.zip", f"`parse-dg data add NAME {tmp_path / 'own.zip'}` unpacks it")
    (tmp_path / "bad.csv").write_text("path,domain,class\nx.png,a\n")
    refused("bad.csv", "bad.csv, line 2: expected 3 cells, found 2")
    (tmp_path / "bad.json").write_text(json.dumps([{"path": "x"}]))
    refused("bad.json", "bad.json, entry 1: no 'domain'")


@pytest.mark.parametrize("domain", ["day.1 猫", "x" * 200])
def test_domains_by_any_name(domain: str, run: Run, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")  # a long name stays whole
    (own / "day").rename(own / domain)
    trained(run("train", "--algorithm", "erm", "--data", own, "--target", domain, *SMALL))
    folder = Path("runs/own/erm") / domain / "seed0"
    assert result_of(folder)["target"]["domain"] == domain
    rows = counts(run("evaluate", folder, "--domain", domain)).values()
    assert sum("/" in correct for correct in rows) == 1
