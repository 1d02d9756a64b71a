"""What heads can do with perfect primitives: PARSE's structural layer and a linear layer on true part centres.

    python -m benchmarks.oracle

Six primitives sit on the six true parts of Blueprints' images, moved by Gaussian noise. What is left is the head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parse_dg.algorithms.base import linear
from parse_dg.data.benchmarks import DataConfig
from parse_dg.data.blueprints.store import open_blueprints
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.structure import StructuralLayer, StructureConfig

TRAINING, BATCH, STEPS = 6000, 96, 1500


def main() -> None:
    stored = open_blueprints(DataConfig().blueprints)
    centres = torch.cat([torch.tensor(domain.centres) for domain in stored.domains.values()])
    labels = torch.cat([torch.tensor(domain.labels) for domain in stored.domains.values()])
    print(f"accuracy on {len(labels) - TRAINING} images of all styles, after {STEPS} steps on {TRAINING} others")
    for noise in (0.0, 0.05, 0.15):
        linear_head, structural = (_accuracy(kind, centres, labels, noise) for kind in ("linear", "structural"))
        pixels = 31.5 * noise
        print(
            f"noise {noise:.2f} ({pixels:.1f} pixels): linear {linear_head:.3f}, structural layer {structural:.3f}"
        )


def _accuracy(kind: str, centres: Tensor, labels: Tensor, noise: float) -> float:
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(labels), generator=generator)
    head: nn.Module
    if kind == "linear":
        head = linear(2 * centres.shape[1], 8, generator)
        groups = [{"params": head.parameters(), "lr": 1e-2}]
    else:
        config = StructureConfig(composition=CompositionConfig(start_entries=32))
        head = StructuralLayer(centres.shape[1], 8, config, generator)
        rest = [p for p in head.parameters() if p is not head.composition.weight]
        groups = [{"params": [head.composition.weight], "lr": 1e-3}, {"params": rest, "lr": 3e-3}]
    optimizer = torch.optim.Adam(groups)
    for _ in range(STEPS):
        batch = order[torch.randint(TRAINING, (BATCH,), generator=generator)]
        loss = F.cross_entropy(_logits(head, centres[batch], noise, generator), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        test = order[TRAINING:]
        return float((_logits(head, centres[test], noise, generator).argmax(1) == labels[test]).float().mean())


def _logits(head: nn.Module, centres: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    moved = centres + noise * torch.randn(centres.shape, generator=generator)
    if not isinstance(head, StructuralLayer):
        return head(moved.flatten(1))
    B, K, _ = moved.shape
    z = PrimitiveDescriptors(moved, torch.full((B, K), 0.9), torch.full((B, K, 2), 0.3), torch.ones(B, K, 1, 1))
    return head(z).logits


if __name__ == "__main__":
    main()
