"""docs/how_parse_works.md and its notebook: the code as it is printed computes what the network computes."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.cli import build_parser
from parse_dg.explain.explanation import name_applications

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how_parse_works.md").read_text(encoding="utf-8")
LARGEST = 150_000
"""Bytes of a picture."""


@pytest.fixture(autouse=True)
def demo(parse_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "parse").symlink_to(parse_run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def test_every_step_by_hand_is_the_networks(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 10
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "how_parse_works.md", "exec"), names)
    network, z = names["network"], names["z"]
    for mine, theirs in ((names["heat"], z.heatmap), (names["c"], z.centre), (names["sigma"], z.presence)):
        assert torch.allclose(mine, theirs, atol=1e-5)
    assert torch.allclose(names["delta"], z.extent, atol=1e-4)
    columns = torch.arange(network.structure.vocabulary.size)[:1000]
    row = [each.name for each in name_applications(network.structure, columns)].index("above(p1, p0)")
    assert torch.allclose(names["above"], network.structure.evaluate(z, columns)[0, row], atol=1e-5)
    output = network(names["X"])
    assert torch.allclose(names["scores"], output.structure.scores, atol=1e-6)
    assert torch.allclose(names["probability"], output.logits.softmax(1), atol=1e-5)
    assert torch.allclose(names["contributions"].sum(), names["scores"].max(), atol=1e-5)
    assert names["explanation"].predicted == names["predicted"]
    assert capsys.readouterr().out.startswith(names["predicted"])


def test_the_pictures_are_those_that_the_command_draws() -> None:
    (command,) = re.findall(r"^parse-dg (figure .*)$", PAGE, re.MULTILINE)
    options = build_parser().parse_args(shlex.split(command))
    assert DOCS.parent / options.steps == DOCS / "pictures" / "how_parse_works"
    shown = re.findall(r"\]\((pictures/how_parse_works/\d_\w+\.png)\)", PAGE)
    assert [path.name for path in sorted((DOCS.parent / options.steps).iterdir())] == [Path(p).name for p in shown]
    assert all((DOCS / path).stat().st_size < LARGEST for path in shown)


def test_the_notebook_runs() -> None:
    notebook = json.loads((DOCS / "how_parse_works.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ipywidgets", None)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == []
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    output = names["network"](names["model"].prepare(names["picture"][None]))
    assert names["before"] == pytest.approx(output.structure.scores[0].tolist())
    assert names["after"] != names["before"]
    names["plt"].close("all")
