"""What the classes of a run used before its first step. The start is not kept: it is drawn again, as it was."""

from dataclasses import replace

import torch

from parse_dg.deploy.model_file import Model
from parse_dg.model.composition import ActiveWeights
from parse_dg.runs.config import RunConfig
from parse_dg.runs.run import build_start


@torch.no_grad()
def weights_at_start(config: RunConfig, model: Model) -> ActiveWeights | None:
    """The class weights before training, on the model's device; None if it is not of the run's vocabulary."""
    end = model.parse_network().structure
    config = replace(config, backbone=replace(config.backbone, weights=None))
    start = build_start(config, len(model.spec.classes), model.spec.domains).eval().parse_network
    if start is None:
        return None
    structure = start.structure.to(end.composition.weight.device)
    known = structure.vocabulary
    same = (known.primitives, known.config) == (end.vocabulary.primitives, end.vocabulary.config)
    return structure.composition.active() if same else None


def applications_at_start(config: RunConfig, model: Model) -> int | None:
    """How many applications some class used before training; None as above."""
    start = weights_at_start(config, model)
    return None if start is None else len(start.applications)
