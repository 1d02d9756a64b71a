"""CDANN: a discriminator that knows the class, and counts classes alike."""

from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.cdann import Cdann, CdannConfig
from tests.algorithms.tiny import CHANNELS, batch, context, copy_of, moved, step
from tests.parts import seeded


def build(**settings: Any) -> Cdann:
    return Cdann(CdannConfig(**{"width": 8, **settings}), context())


def slow_average(each: Tensor, labels: Tensor) -> float:
    """Mean within a class, summed over classes, over the largest label plus one."""
    found = 0.0
    for label in set(labels.tolist()):
        own = [value for value, of in zip(each.tolist(), labels.tolist(), strict=True) if of == label]
        found += sum(own) / len(own)
    return found / (max(labels.tolist()) + 1)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3, 3, 3], [1, 1, 1, 1, 1, 1], [0, 0, 2, 0, 2, 0], [0] * 6])
def test_every_class_of_a_batch_counts_the_same(labels: list[int]) -> None:
    each = torch.rand(6, generator=seeded(3))
    found = build().averaged(each, torch.tensor(labels))
    assert found.item() == pytest.approx(slow_average(each, torch.tensor(labels)), 1e-6)


def test_the_discriminator_sees_the_features_plus_the_embedding_of_the_class() -> None:
    cdann = build()
    features = torch.randn(5, CHANNELS, generator=seeded(4))
    labels = [3, 0, 0, 2, 1]
    seen = cdann.judged(features, torch.tensor(labels))
    for row, label in enumerate(labels):
        assert torch.equal(seen[row], features[row] + cdann.class_embeddings.weight[label])


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_discriminators_loss(penalty: float) -> None:
    cdann, example = build(gradient_penalty=penalty), batch()
    features = cdann.features(example.images, seeded())
    seen = (features + cdann.class_embeddings(example.labels)).detach().requires_grad_()
    logs = cdann.discriminator(seen).log_softmax(1)
    each = torch.stack([-row[domain] for row, domain in zip(logs, example.domains.tolist(), strict=True)])
    found = cdann.discrimination(features, example, seeded())
    assert found["discriminator"].item() == pytest.approx(slow_average(each, example.labels), 1e-5)
    (gradient,) = torch.autograd.grad(each.sum(), seen)  # every image alike, whatever its class
    if penalty:
        expected = penalty * gradient.square().sum().item() / len(seen)
        assert found["gradient_penalty"].item() == pytest.approx(expected, 1e-5)
    else:
        assert "gradient_penalty" not in found


def test_the_embedding_learns_with_the_discriminator() -> None:
    cdann = build()
    assert [id(p) for p in cdann.groups()["adversary"]] == [
        *(id(p) for p in cdann.discriminator.parameters()),
        id(cdann.class_embeddings.weight),
    ]
    before = copy_of(cdann)
    step(cdann)
    assert moved(cdann, before) == {"backbone", "head"}
    before = copy_of(cdann)
    step(cdann)
    assert moved(cdann, before) == {"adversary"}
