"""docs/own_data.md: every command as it is printed, one after the other; training is short, without a download."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from parse_dg.cli import build_parser
from tests.cli.conftest import Run, result_of, run
from tests.data.intake.test_library import plant
from tests.integration.test_own_data import kept
from tests.serve.process import serving

__all__ = ["kept", "run"]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line, comments=True) for block in BLOCKS for line in block.splitlines()]
FINAL = "runs/photos/parse/none/seed0"
QUICK = {
    "backbone.name": "local",
    "backbone.weights": "none",
    "mixstyle.stages": "",
    "data.image_size": 32,
    "training.steps": 2,
    "training.check_every": 1,
    "training.batch_per_domain": 2,
}
ELSEWHERE = (["serve", FINAL], ["export", FINAL], ["sweep", "photos.toml"])
"""What is started in another way below; what takes long, and has tests of its own; what is planned."""


def test_every_command_is_understood() -> None:
    for program, *words in COMMANDS:
        if program == "parse-dg":
            build_parser().parse_args(words)


@pytest.mark.slow
def test_every_command_in_turn(run: Run, tmp_path: Path) -> None:
    classes = ("duck", "heron", "owl")
    photos = plant(tmp_path / "photos", ("garden", "meadow", "night"), classes, images=10, side=(12, 9))
    plant(tmp_path, ("march",), classes, images=3, first=500, side=(9, 12))
    Image.new("RGB", (16, 12), "orange").save(photos / "night" / "owl" / "001.jpg")
    (toml,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    Path("photos.toml").write_text(toml, encoding="utf-8")
    quick = [word for field, value in QUICK.items() for word in ("--set", f"{field}={value}")]
    mine = [words for program, *words in COMMANDS if program == "parse-dg"]
    assert {words[0] for words in mine} >= {"data", "train", "sweep", "table", "name", "evaluate", "serve"}
    for words in mine:
        if words in ELSEWHERE:
            continue
        said = run(*words, *(quick if words[0] in ("train", "sweep") else ()))
        assert (said.code, said.err) == (0, ""), (words, said.err)
        assert words[0] != "sweep" or "6 runs" in said.out
    assert result_of(Path(FINAL))["validation"].keys() == {"garden", "meadow", "night"}
    assert json.loads(Path("runs/photos/parse/night/seed0/names.json").read_text())
    if shutil.which("curl") is None:
        pytest.skip("the last command needs curl")
    (curl,) = [words for words in COMMANDS if words[0] == "curl"]
    with serving(Path(FINAL)) as service:
        asked = [word.replace(":8000/", f":{service.port}/") for word in curl]
        answer = subprocess.run([*asked, "--silent"], capture_output=True, text=True, check=True).stdout
    assert {each["name"] for each in json.loads(answer)["top"]} == set(classes)


def test_the_containers_commands_are_those_of_the_dockerfile() -> None:
    told = (ROOT / "docker" / "Dockerfile").read_text()
    for words in COMMANDS:
        if words[0] == "docker":
            line = shlex.join(words).replace(FINAL, "RUN")
            assert f"#   {line}\n" in told
