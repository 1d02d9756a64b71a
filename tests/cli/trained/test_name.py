"""`parse-dg name`."""

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_names_are_given_said_and_taken_away(run: Run, parse_copy: Path) -> None:
    done = run("name", parse_copy, "p3=beak", "p11=red [bold] crest")
    assert done.code == 0
    assert f"written to {parse_copy / 'names.json'}" in done.out
    assert "2 primitives of 16 named" in done.out
    assert "│ p11 red [bold] crest " in run("name", parse_copy).out
    data = json.loads(run("explain", "classes", parse_copy, "--format", "json").out)
    said = {term["words"] for each in data["classes"] for term in each["terms"] if 3 in term["primitives"]}
    assert said
    assert all("beak" in words for words in said)
    image = run("explain", "image", parse_copy, "sketch:0", "--top", 400).out
    assert "│ p11 red [bold] crest │" in image
    left = json.loads(run("name", parse_copy, "p3=", "--format", "json").out)
    assert left == {"names": {"p11": "red [bold] crest"}}
    assert run("name", parse_copy, "--clear").code == 0
    assert json.loads((parse_copy / "names.json").read_bytes())["names"] == {}


def test_mistakes_change_nothing(run: Run, parse_copy: Path, erm_run: Path) -> None:
    run("name", parse_copy, "p3=beak")
    before = (parse_copy / "names.json").read_bytes()
    for words, said in (
        (("p3=a", "p3=b"), "every primitive must be given once"),
        (("p16=a",), "valid are p0 to p15"),
        (("p3=a", "--propose"), "--propose gives no names"),
        (("--parts", "x"), "--parts is for --propose"),
    ):
        done = run("name", parse_copy, *words)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert said in done.err
    assert (parse_copy / "names.json").read_bytes() == before
    assert "this needs a model of parse, found one of erm" in run("name", erm_run).err
    (parse_copy / "names.json").write_bytes(before.replace(b'"primitives": "', b'"primitives": "0'))
    assert "another model: begin anew with --clear" in run("name", parse_copy, "p4=tail").err


def test_names_are_proposed_with_their_share_and_not_given(run: Run, parse_copy: Path) -> None:
    done = run("name", parse_copy, "--propose", "--format", "json")
    proposals = json.loads(done.out)["proposals"]
    assert [each["primitive"] for each in proposals] == list(range(16))
    for each in proposals:
        assert (each["name"] or each["part"]).startswith(each["part"])
        assert (each["name"] is not None) <= (each["share"] >= 0.5)
    names = [each["name"] for each in proposals if each["name"]]
    assert len(set(names)) == len(names)
    first = proposals[0]
    share = f"p0 follows {first['part']} in {100 * first['share']:.1f}% of {first['images']} images (by chance"
    assert share in run("name", parse_copy, "--propose").out
    assert not (parse_copy / "names.json").exists()
