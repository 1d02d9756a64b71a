"""ERM: backbone, mean over the map, linear; dropout between the last two."""

import pytest
import torch

from parse_dg.algorithms.base import BuildContext, Minibatch
from parse_dg.algorithms.erm import Erm, ErmConfig
from tests.parts import seeded, small_backbone


def build(dropout: float = 0.0) -> Erm:
    start = seeded()
    backbone = small_backbone(start)
    return Erm(ErmConfig(dropout=dropout), BuildContext(backbone, 3, generator=start))


@pytest.fixture(scope="module")
def example() -> Minibatch:
    images = torch.randn(6, 3, 32, 32, generator=seeded(1))
    return Minibatch(images, torch.tensor([0, 1, 2, 0, 1, 2]), torch.zeros(6, dtype=torch.long))


def test_dropout_zeroes_features_and_scales_the_others_up(example: Minibatch) -> None:
    erm = build(dropout=0.25).eval()
    with torch.no_grad():
        features = erm.backbone(example.images).mean((2, 3))
        keep = torch.rand(features.shape, generator=seeded(5)) >= 0.25
        assert 0.6 < keep.float().mean() < 0.9
        logits = (features * keep / 0.75) @ erm.classifier.weight.T + erm.classifier.bias
        expected = torch.nn.functional.cross_entropy(logits, example.labels)
        found = erm.losses(example, seeded(5))["cross_entropy"]
    assert found.item() == pytest.approx(expected.item(), 1e-5)


def test_prediction_does_not_drop(example: Minibatch) -> None:
    with torch.no_grad():
        assert torch.equal(build(dropout=0.9).eval()(example.images), build().eval()(example.images))
