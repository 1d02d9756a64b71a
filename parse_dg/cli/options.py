"""What several commands take. Modules of commands import what needs torch, numpy or rich inside their functions, so
that `--help` answers at once; a default that is written here is tested to be that of the code.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parse_dg.data.listing import Progress
    from parse_dg.runs.opened import OpenedRun

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = argparse._SubParsersAction

SELECTION_NAMES = "training-domain, leave-one-domain-out, oracle"


def add_device(command: argparse.ArgumentParser) -> None:
    """`--device`."""
    command.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu or cuda (default: auto)")


def add_model(command: argparse.ArgumentParser) -> None:
    """`--model` and `--device`: of the models of a run, one, and where it computes."""
    command.add_argument(
        "--model", type=Path, metavar="FILE", help="another model file, such as RUN/compact.safetensors"
    )
    add_device(command)


def opened(options: argparse.Namespace, progress: "Progress | None" = None) -> "OpenedRun":
    """The run that is asked about, with the model and on the device that `add_model` takes."""
    from parse_dg.runs.opened import OpenedRun

    return OpenedRun(options.run, model=options.model, device=options.device, progress=progress)
