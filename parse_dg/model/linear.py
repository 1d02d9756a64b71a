"""A linear layer that starts from a passed generator."""

import torch
from torch import nn


def linear(inputs: int, outputs: int, generator: torch.Generator | None = None) -> nn.Linear:
    """nn.Linear with its usual start, uniform in ±1/√inputs, drawn from `generator`."""
    layer = nn.Linear(inputs, outputs)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
    return layer
