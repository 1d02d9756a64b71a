"""Names of primitives: what can be one, where they are kept, and whose they are."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import parse_dg
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.export import export_metadata
from parse_dg.deploy.model_file import load_model, save_model
from parse_dg.deploy.names import MOST_BYTES, NAMES, check_names, parse_assignment, read_names, write_names
from parse_dg.errors import InputError
from tests.parts import refusal


@pytest.mark.parametrize("text", ["beak", "p=x", "3", "p-1=x", "=beak", "p3"])
def test_what_is_no_assignment(text: str) -> None:
    assert "expected PRIMITIVE=NAME such as p3=beak" in refusal(parse_assignment, text)


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31mred", "=cmd()", "<b>", "p12", "x" * 41, "a\u202eb", " beak"])
def test_what_cannot_be_a_name(name: str) -> None:
    assert "the name of p3 must be 1 to 40 characters" in refusal(check_names, {3: name}, 16)


def test_names_tell_primitives_apart() -> None:
    assert check_names({11: "red crest", 3: "Schnabel <b>"}, 16) == {3: "Schnabel <b>", 11: "red crest"}
    assert "p1 and p2 would both be called 'Beak'" in refusal(check_names, {1: "beak", 2: "Beak"}, 16)
    assert "unknown primitive p16: valid are p0 to p15" in refusal(check_names, {16: "beak"}, 16)


def test_every_sentence_uses_them_also_of_files_made_from_the_model(parse_copy: Path, tmp_path: Path) -> None:
    plain = parse_dg.load(parse_copy, "cpu")
    write_names(parse_copy, plain.model.parse_network(), {k: f"part {k}" for k in range(16)})
    model = parse_dg.load(parse_copy, "cpu")
    assert model.names[3] == "part 3"
    small = compact(model.model)[0]
    path = tmp_path / "small.safetensors"  # carries them: there is no names.json beside it
    save_model(path, small.spec, small.algorithm.state_dict(), small.names)
    assert json.loads(export_metadata(model.model, {})["primitive_names"])["p3"] == "part 3"
    image = torch.zeros(3, 64, 64, dtype=torch.uint8)
    before = parse_dg.explain(plain, image).relations
    for named in (model, parse_dg.load(path, "cpu")):
        after = parse_dg.explain(named, image).relations
        assert [each.name for each in after] == [each.name for each in before]  # the vocabulary's own stays
        assert [each.words.replace("part ", "p") for each in after] == [each.words for each in before]
        assert parse_dg.describe_classes(named)[0].terms[0].words.startswith("part ")
    write_names(tmp_path, small.parse_network(), {})
    assert load_model(path).names == {}  # what stands beside it says more than what it carries


def test_names_of_another_model_are_left_out(parse_copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = load_model(parse_copy)
    network = model.parse_network()
    write_names(parse_copy, network, {3: "beak"})
    assert read_names(parse_copy, network) == {3: "beak"}
    with torch.no_grad():
        next(network.bottleneck.parameters()).add_(1)  # as after another training
    assert read_names(parse_copy, network) is None
    assert "names the primitives of another model: they are left out" in caplog.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be an object"),
        (b'{"primitives": "OURS", "names": {"p3": 4}}', "names.p3 must be text"),
        (b'{"primitives": "OURS", "names": {"p3": "a\\nb"}}', "the name of p3 must be"),
        (b'{"primitives": "OURS", "names": {"q": "a"}}', "expected PRIMITIVE=NAME"),
        (b" " * (MOST_BYTES + 1), "longer than"),
    ],
)
def test_a_file_that_is_damaged_is_one_line(parse_copy: Path, content: bytes, said: str) -> None:
    network = load_model(parse_copy).parse_network()
    write_names(parse_copy, network, {})
    ours = json.loads((parse_copy / NAMES).read_bytes())["primitives"]
    (parse_copy / NAMES).write_bytes(content.replace(b"OURS", ours.encode()))
    with pytest.raises(InputError, match=said):
        load_model(parse_copy)


def test_names_that_a_model_file_carries_are_checked(parse_copy: Path, tmp_path: Path) -> None:
    model = replace(load_model(parse_copy), names={3: "a\nb"})
    save_model(tmp_path / "other.safetensors", model.spec, model.algorithm.state_dict(), model.names)
    with pytest.raises(InputError, match="has names of primitives that cannot be used: the name of p3"):
        load_model(tmp_path / "other.safetensors")
