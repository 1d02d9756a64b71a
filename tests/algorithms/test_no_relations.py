"""The ablation without relations: a linear layer on 5K descriptors, or on 3K."""

import pytest
import torch
from torch.nn import functional as F

from parse_dg.algorithms.base import BuildContext, Minibatch
from parse_dg.algorithms.no_relations import NoRelations, NoRelationsConfig
from parse_dg.algorithms.parse import Parse, ParseConfig
from parse_dg.model.primitives import PrimitivesConfig
from tests.parts import seeded, small_backbone


def build(count: int, extents: bool = True) -> NoRelations:
    start = seeded(0)
    backbone = small_backbone(start)
    config = NoRelationsConfig(primitives=PrimitivesConfig(count=count), extents=extents)
    return NoRelations(config, BuildContext(backbone, 3, generator=start)).eval()


@pytest.mark.parametrize("extents", [True, False])
def test_logits_are_sums_over_primitives_of_centre_presence_and_extent(extents: bool) -> None:
    model = build(6, extents)
    images = torch.randn(5, 3, 32, 32, generator=seeded(1))
    with torch.no_grad():
        z, found = model.bottleneck(model.backbone(images)), model.logit_parts(images)
        of_centre, of_presence, of_extent = model.classifier.weight.tensor_split((12, 18), 1)
        for k in range(6):
            part = z.centre[:, k] @ of_centre[:, 2 * k : 2 * k + 2].T + z.presence[:, k, None] * of_presence[:, k]
            part += z.extent[:, k] @ of_extent[:, 2 * k : 2 * k + 2].T if extents else 0
            assert torch.allclose(found.parts[..., k], part, atol=1e-6)
        assert torch.allclose(model(images), found.parts.sum(2) + found.bias, atol=1e-5)
        assert torch.equal(found.logits, model(images))


def test_backbone_and_bottleneck_start_as_those_of_parse() -> None:
    start = seeded(0)
    backbone = small_backbone(start)
    parse = Parse(ParseConfig(primitives=PrimitivesConfig(count=6)), BuildContext(backbone, 3, generator=start))
    expected = parse.network.state_dict()
    shared = {k: v for k, v in build(6).state_dict().items() if not k.startswith("classifier.")}
    assert len(shared) > 10
    assert all(torch.equal(value, expected[name]) for name, value in shared.items())


def test_it_can_be_guided_as_parse_is() -> None:
    start = seeded(0)
    backbone = small_backbone(start)
    model = NoRelations(NoRelationsConfig(guidance=2.0), BuildContext(backbone, 3, generator=start))
    images = torch.randn(4, 3, 32, 32, generator=seeded(1))
    labels = torch.tensor([0, 1, 2, 0])
    terms = model.losses(Minibatch(images, labels, torch.zeros(4, dtype=torch.long)), start)
    assert model.guide is not None
    pooled = model.guide(model.backbone(images).mean((2, 3)))
    assert terms["guidance"].item() == pytest.approx(2 * F.cross_entropy(pooled, labels).item(), rel=1e-4)
    assert model(images).shape == (4, 3)
