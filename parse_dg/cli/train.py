"""`parse-dg train`: one run, from the options that say which."""

import json
import logging
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parse_dg.cli.options import Commands, Console, add_command
from parse_dg.config import require
from parse_dg.errors import EXIT_FAILED, EXIT_INPUT, FailedError, InputError

if TYPE_CHECKING:
    from parse_dg.runs.config import RunConfig
    from parse_dg.training.team import Team

DEFAULTS: dict[str, Any] = {
    "algorithm": "parse",
    "data": "blueprints",
    "target": None,
    "seed": 0,
    "recipe": None,
    "protocol": "parse",
}
"""The options of `parse-dg train` that make a configuration."""


def train(options: Namespace, console: Console) -> None:
    """Train one algorithm with one domain held out, and score it there at the very end.

    Every other domain is a source: 80% of its images train, 20% validate. The weights of the best
    validation step are kept. The target domain is read once, after training, unless the protocol
    records its accuracy on the way; nothing is chosen by it. With --target none every domain is a
    source: the model to be used, chosen by validation on all of them, and scored on no unseen domain.

    For example:
      parse-dg train --algorithm parse --target sketch --set training.steps=1500

    A run is a folder: config.json repeats it, metrics.jsonl follows it, model.safetensors is the
    model, result.json says which number is the result. `parse-dg config` has the fields of `--set`.
    """
    from parse_dg.cli.show.display import print_result, run_with_display
    from parse_dg.runs.folder import remove_other
    from parse_dg.runs.tracking import require_trackers
    from parse_dg.runs.train import default_folder
    from parse_dg.training.team import form_team

    if options.dry_run:
        preview(options, console)
        return
    track = require_trackers(options.track)
    require(options.checkpoint_every >= 0, "--checkpoint-every", options.checkpoint_every, "0 or more seconds")
    config = configure(options)
    folder = options.out or default_folder(config)
    team_of = form_team(options.processes, options.nodes, config.training.device, force=options.force)
    with team_of as team, _said_once(team):
        if options.overwrite and team.first:
            remove_other(config, folder)
        team.wait()
        result = run_with_display(
            config, folder, console, track=track, checkpoint_every=options.checkpoint_every, team=team
        )
        if team.first:
            print_result(console, result, folder)


@contextmanager
def _said_once(team: "Team") -> Iterator[None]:
    """Within, what all processes of a machine find is said by one of them; the others end with the same code."""
    if not team.speaks:
        logging.disable(logging.WARNING)
    try:
        yield
    except (InputError, FailedError) as error:
        if team.speaks:
            raise
        raise SystemExit(EXIT_INPUT if isinstance(error, InputError) else EXIT_FAILED) from error


def preview(options: Namespace, console: Console) -> None:
    """`parse-dg train --dry-run`: everything that would be done, and nothing of it."""
    from parse_dg.cli.show.config import print_settings
    from parse_dg.cli.show.display import print_preview
    from parse_dg.runs.train import default_folder, preview_run
    from parse_dg.sweeps.cost import estimate_cost
    from parse_dg.sweeps.jobs import Job

    config = configure(options)
    folder = options.out or default_folder(config)
    found = preview_run(config, folder, options.overwrite)
    print_settings(console, config)
    place = folder / "anew" if options.overwrite and not found.finished else folder  # what is there does not count
    print_preview(console, found, folder, estimate_cost([Job(config, place)], below=Path("runs")))


def configure(options: Namespace) -> "RunConfig":
    """The configuration that the options ask for, or that of `--config`; then every `--set`."""
    from parse_dg.runs.train import change_run, configure

    settings = parse_settings(options.set)
    if options.config is not None:
        _require_alone(options)
        return change_run(read_configuration(options.config), settings)
    given = {name: getattr(options, name) for name in DEFAULTS}
    return configure(**given | {"target": _one_target(options.target)}, settings=settings)


def _one_target(targets: list[str] | None) -> str | None:
    if targets is None or len(targets) == 1:
        return targets[0] if targets else None
    several = "`parse-dg sweep` holds out each of several in turn"
    raise InputError(f"a run holds out one domain, found --target {' and --target '.join(targets)}: {several}")


def read_configuration(source: str) -> "RunConfig":
    """The configuration in a file, or in standard input for `-`, exactly as it is there."""
    from parse_dg.runs.folder import parse_config

    name = "standard input" if source == "-" else source
    try:
        data = json.loads(sys.stdin.read() if source == "-" else Path(source).read_text())
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not valid JSON: {error}") from error
    return parse_config(data, name)


def _require_alone(options: Namespace) -> None:
    """Raise if `--config` comes with what it holds already, or without a folder."""
    for name, default in DEFAULTS.items():
        if getattr(options, name) != default:
            raise InputError(f"--config is a whole configuration: give --set instead of --{name} to change it")
    if options.out is None:
        raise InputError("--config needs --out FOLDER, where the run is to be written")


def parse_settings(pairs: list[str]) -> dict[str, object]:
    """["training.steps=500"] → {"training.steps": "500"}."""
    settings: dict[str, object] = {}
    for pair in pairs:
        path, equals, value = pair.partition("=")
        if not equals or not path:
            raise InputError(f"--set takes section.field=value, such as training.steps=500, found {pair!r}")
        settings[path] = value
    return settings


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "train one algorithm with one domain held out"
    command = add_command(commands, "train", train, words, resumes=True)
    names = "erm, dann, cdann, group_dro, mixup, sagnet, coral, gvrt, miro, erm_plus_plus, no_relations, parse"
    command.add("--algorithm NAME", names, DEFAULTS["algorithm"])
    words = (
        "a data set that was added (`parse-dg data list`), a folder domain/class/image, class/image with --target "
        "none, or a .csv or .json list"
    )
    command.add("--data DATA", words, DEFAULTS["data"])
    words = "the domain that is held out (of blueprints by default: sketch), or none: all train, for a model to use"
    command.add("--target DOMAIN", words, action="append")
    command.add("--seed N", "of the hold-out and every draw", DEFAULTS["seed"])
    usual = "blueprints for blueprints, fine_grained for cub-dg, pretrained for anything else"
    names = "blueprints, pretrained, fine_grained, domainbed, paper, paper_text"
    command.add("--recipe NAME", f"{names} (default: {usual})")
    words = "parse, domainbed, swad, gvrt: how long, checked how often, scored on which images"
    command.add("--protocol NAME", words, DEFAULTS["protocol"])
    command.add("--set FIELD=VALUE", "change one field", many=True)
    words = "a run's config.json, or - for standard input, instead of all of the above but --set; needs --out"
    command.add("--config FILE", words, type=str)
    words = "print the configuration, the images of each split, the steps and the expected cost; write nothing"
    command.add("--dry-run", words)
    words = "also follow the run in tensorboard (FOLDER/tensorboard) or wandb"
    command.add("--track NAME", words, many=True)
    command.add("--out FOLDER", "default: runs/DATA/ALGORITHM/TARGET/seedN")
    command.add("--overwrite", "replace a run of other settings that is there; one of the same settings goes on")
    words = "how often it is written where the run stands, 0: after every step"
    command.add("--checkpoint-every SECONDS", words, 60.0)
    words = "train one model with N processes of this machine, on CUDA with a GPU each; torchrun does too"
    command.add("--processes N", words, 1)
    command.add("--force", "on the CPU: more processes than there are cores")
    command.add("--nodes N", "machines, of a SLURM job, with so many each", 1)
