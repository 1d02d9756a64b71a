"""From names to the configuration of a run: the recipe, what is trained on, the protocol, then every setting."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parse_dg.config import change
from parse_dg.data.benchmarks import benchmark_name, find_domains
from parse_dg.errors import InputError
from parse_dg.runs.config import RunConfig
from parse_dg.runs.protocols import apply_protocol
from parse_dg.runs.recipes import build_config, default_recipe


def configure(
    data: str | Path = "blueprints",
    target: str | None = None,
    algorithm: str = "parse",
    *,
    recipe: str | None = None,
    protocol: str = "parse",
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> RunConfig:
    """The configuration that `parse-dg train` makes of the options of the same names.

    `data` is a name or a path; `settings` are fields by their paths, as for `--set`: {"training.steps": 500}.
    """
    data, changes = str(data), dict(settings or {})
    chosen: dict[str, Any] = {"data.benchmark": benchmark_name(data), "seed": seed}
    if target is not None:
        chosen["data.target"] = target
    elif data != "blueprints":
        raise InputError(f"which domain is held out? Give --target, one of {', '.join(find_domains(data))}")
    config = change(build_config(recipe or default_recipe(data), algorithm, data), chosen)
    return change_run(apply_protocol(protocol, config), changes)


def change_run(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """As `change`, where a path to data is made absolute."""
    benchmark = {key: benchmark_name(str(value)) for key, value in settings.items() if key == "data.benchmark"}
    return change(config, {**settings, **benchmark})


def default_folder(config: RunConfig) -> Path:
    """runs/DATA/METHOD/TARGET/seedN; a data set used by path goes by the last part of the path."""
    data = Path(config.data.benchmark).name or "data"
    parts = (data, config.method, config.data.target, f"seed{config.trial}")
    return Path("runs").joinpath(*parts)
