"""Bringing a team together: processes of this machine, of torchrun, or of a SLURM job, through Lightning Fabric."""

import os

import torch

from parse_dg.errors import InputError
from parse_dg.training.team import ALONE, Team

EXTRA = "pip install 'parse-dg[distributed]'"


def started_by_torchrun() -> bool:
    """Whether torchrun has started this process as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def form_team(processes: int = 1, nodes: int = 1, device: str = "auto") -> Team:
    """The place of this process among `processes` a machine on `nodes` machines.

    On one machine the others are started here. With several, every machine runs the same command under torchrun or
    in a SLURM job, which say how many there are. On CUDA each process has a GPU of its own.
    """
    for name, found in (("processes", processes), ("nodes", nodes)):
        if found < 1:
            raise InputError(f"--{name} must be at least 1, found {found}")
    if started_by_torchrun():
        here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        processes, nodes = here, int(os.environ["WORLD_SIZE"]) // here
    if processes * nodes == 1:
        return ALONE
    on_cuda = torch.cuda.is_available() if device == "auto" else device.startswith("cuda")
    if on_cuda and processes > torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise InputError(f"{processes} processes need a GPU each, found {found}: --processes {found} would do")
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise InputError(f"several processes need Lightning Fabric: {EXTRA}") from error
    fabric = Fabric(accelerator="cuda" if on_cuda else "cpu", devices=processes, num_nodes=nodes, strategy="ddp")
    fabric.launch()
    return Team(fabric.global_rank, fabric.world_size, fabric.device)
