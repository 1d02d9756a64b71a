"""The files of docker/, as far as can be told without Docker: what they copy, install and start is there."""

import configparser
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli import build_parser
from tests.serve.process import started

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker"
MODEL = "/model/model.safetensors"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="there is no docker/ here")


def instructions() -> list[tuple[str, str]]:
    """(COPY, constraints.txt ./), …"""
    lines = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    found = [line.partition(" ") for line in lines if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in found]


def the(name: str) -> str:
    (found,) = [rest for each, rest in instructions() if each == name]
    return found


def test_what_is_copied_is_there_and_sent_to_docker(parse_run: Path) -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().split()
    copies = [rest.split() for name, rest in instructions() if name == "COPY"]
    ours = [source for words in copies if not words[0].startswith("--from") for source in words[:-1]]
    assert ours
    for source in ours:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source
    argument, _, default = the("ARG").partition("=")
    of_run = [words[1:] for words in copies if words[0] == "--from=run"]
    assert ["${" + argument + "}", MODEL] in of_run
    assert (parse_run / default).is_file()
    assert ["names.json*", "/model/"] in of_run


def test_what_is_installed_is_offered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installs = [shlex.split(rest) for name, rest in instructions() if name == "RUN" and rest.startswith("pip")]
    (extras,) = re.findall(r"\.\[([\w,]+)\]", " ".join(installs[-1]))
    assert "serve" in extras.split(",")
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    version = the("FROM").partition(":")[2].partition("-")[0]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]
    assert the("USER") != "root"


def test_the_entry_point_serves_and_the_health_check_says_so(parse_run: Path, tmp_path: Path) -> None:
    """As in the container, without a home; but for where the model is, and a port that is free."""
    program, *words = json.loads(the("ENTRYPOINT"))
    assert program == "parse-dg"
    assert the("EXPOSE") == words[words.index("--port") + 1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    model = str(parse_run / "model.safetensors")
    words = [{the("EXPOSE"): port, MODEL: model}.get(word, word) for word in words]
    check = json.loads(the("HEALTHCHECK").partition("CMD ")[2])
    asked = [sys.executable, "-c", check[2].replace(the("EXPOSE"), port)]
    assert subprocess.run(asked, capture_output=True).returncode != 0
    environment = os.environ | {"HOME": "/nonexistent", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "parse_dg", *words]
    with started(command, environment) as service:
        assert subprocess.run(asked).returncode == 0
        assert service.end()[0] == 0  # as `docker stop` ends it


def test_compose_builds_that_image_and_lets_only_this_machine_ask() -> None:
    yaml: Any = pytest.importorskip("yaml")
    service = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["classifier"]
    built = service["build"]
    assert (FOLDER / built["context"] / built["dockerfile"]).samefile(FOLDER / "Dockerfile")
    assert "run" in built["additional_contexts"]
    assert service["ports"] == [f"127.0.0.1:{the('EXPOSE')}:{the('EXPOSE')}"]


def test_the_unit_starts_a_command_that_is_understood() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(FOLDER / "parse-dg.service")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "parse-dg"
    assert build_parser().parse_args(words).command.__name__ == "serve"
    assert unit["Service"]["DynamicUser"] == "yes"
