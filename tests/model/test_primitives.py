"""The bottleneck: heat maps become locations, presence and extents as section 3.2 says."""

from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.model.primitives import (
    Normalisation,
    PrimitiveBottleneck,
    PrimitiveDescriptors,
    PrimitivesConfig,
    to_descriptors,
)
from tests.model import reference

ONE = torch.tensor(1.0, dtype=torch.float64)
FAR_BELOW = -1e4


def random_evidence(B: int, K: int, H: int, W: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(B, K, H, W, generator=draw, dtype=torch.float64)


def single_map(points: dict[tuple[int, int], float], rows: int = 5, columns: int = 5) -> Tensor:
    evidence = torch.full((1, 1, rows, columns), FAR_BELOW, dtype=torch.float64)
    for (row, column), value in points.items():
        evidence[0, 0, row, column] = value
    return evidence


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("size", [(7, 7), (4, 6), (6, 3), (1, 5), (5, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize("normalisation", ["softmax", "sparsemax"])
def test_describe_equals_the_slow_loop(
    size: tuple[int, int], temperature: float, normalisation: Normalisation
) -> None:
    evidence = random_evidence(2, 3, *size)
    z = to_descriptors(evidence, torch.tensor(temperature, dtype=torch.float64), normalisation)
    for image in range(2):
        for primitive in range(3):
            slow = evidence[image, primitive].tolist(), temperature, normalisation == "sparsemax"
            centre, presence, extent, normal = reference.describe(*slow)
            assert z.centre[image, primitive].tolist() == pytest.approx(centre, abs=1e-13)
            assert z.presence[image, primitive].item() == pytest.approx(presence, abs=1e-13)
            assert z.extent[image, primitive].tolist() == pytest.approx(extent, abs=1e-12)
            expected = torch.tensor(normal, dtype=torch.float64)
            torch.testing.assert_close(z.heatmap[image, primitive], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [((0, 0), (-1, -1)), ((0, 4), (1, -1)), ((4, 0), (-1, 1)), ((4, 4), (1, 1)), ((1, 2), (0, -0.5))],
)
def test_x_runs_right_and_y_runs_down_with_corners_aligned(
    cell: tuple[int, int], expected: tuple[float, float]
) -> None:
    z = to_descriptors(single_map({cell: 0.0}), ONE)
    assert z.centre[0, 0].tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("size", [(2, 3), (1, 4), (4, 1)])
@pytest.mark.parametrize(("normalisation", "start"), [("softmax", 0.8), ("sparsemax", 6.0)])
def test_gradient_of_describe_is_right(size: tuple[int, int], normalisation: Normalisation, start: float) -> None:
    evidence = random_evidence(1, 2, *size, seed=3).requires_grad_()
    temperature = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    given = evidence, temperature
    assert torch.autograd.gradcheck(lambda e, t: tuple(to_descriptors(e, t, normalisation)), given)


def test_maps_of_sparsemax_are_zero_but_on_a_few_cells_and_not_drawn_to_the_middle() -> None:
    evidence = random_evidence(4, 3, 16, 16).float()
    evidence[:, :, 1:3, 2:4] += 9.0  # a part in a corner, on a ground that is not empty
    sparse, soft = (to_descriptors(evidence, torch.tensor(4.0), kind) for kind in ("sparsemax", "softmax"))
    assert int((sparse.heatmap > 0).sum((2, 3)).max()) <= 8
    assert float((soft.heatmap[:, :, 1:3, 2:4]).sum((2, 3)).max()) < 0.5
    corner = torch.tensor([2 * 2.5 / 15 - 1, 2 * 1.5 / 15 - 1])
    assert float((sparse.centre - corner).abs().max()) < 2 / 15  # within a cell
    assert float((soft.centre - corner).abs().min()) > 0.3
    torch.testing.assert_close(sparse.heatmap.sum((2, 3)), torch.ones(4, 3))
    assert torch.equal(sparse.presence, soft.presence)


def test_evidence_that_is_no_number_is_not_hidden_by_sparsemax() -> None:
    evidence = random_evidence(1, 2, 3, 3)
    evidence[0, 1, 2, 2] = torch.nan
    z = to_descriptors(evidence, ONE, "sparsemax")
    assert z.centre[0, 0].isfinite().all()
    assert z.centre[0, 1].isnan().all()


def test_gradient_of_the_whole_bottleneck_is_right() -> None:
    bottleneck = PrimitiveBottleneck(2, PrimitivesConfig(count=2, temperature=0.7)).double()
    features = random_evidence(1, 2, 2, 3, seed=4).requires_grad_()
    names, values = zip(*bottleneck.named_parameters(), strict=True)

    def run(features: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.func.functional_call(bottleneck, dict(zip(names, parameters, strict=True)), (features,)))

    assert set(names) == {"projection.weight", "projection.bias", "log_temperature"}
    assert torch.autograd.gradcheck(run, (features, *values))


@pytest.mark.parametrize("rule", ["divides", "multiplies"])
def test_bottleneck_is_a_1x1_convolution_followed_by_the_slow_loop(rule: Any) -> None:
    config = PrimitivesConfig(count=2, temperature=0.7, temperature_rule=rule)
    bottleneck = PrimitiveBottleneck(3, config).double()
    features = random_evidence(1, 3, 3, 4, seed=5)
    weight, bias = bottleneck.projection.weight.tolist(), bottleneck.projection.bias.tolist()
    z = bottleneck(features)
    for k in range(2):
        evidence = [
            [bias[k] + sum(weight[k][c][0][0] * features[0, c, h, w].item() for c in range(3)) for w in range(4)]
            for h in range(3)
        ]
        temperature = bottleneck.log_temperature.exp().item()
        centre, presence, extent, _ = reference.describe(evidence, temperature)
        if rule == "multiplies":  # the centre, not the extent
            centre, _, _, _ = reference.describe(evidence, 1 / temperature)
        assert z.centre[0, k].tolist() == pytest.approx(centre, abs=1e-12)
        assert z.presence[0, k].item() == pytest.approx(presence, abs=1e-12)
        assert z.extent[0, k].tolist() == pytest.approx(extent, abs=1e-12)


def total(z: PrimitiveDescriptors) -> Tensor:
    """A scalar to which every part of the descriptors contributes unevenly."""
    return sum((part * torch.arange(1, part.numel() + 1).view_as(part)).sum() for part in z)  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "evidence",
    [
        torch.zeros(1, 2, 4, 4),
        torch.zeros(1, 2, 1, 1),
        torch.full((1, 2, 1, 1), 1e30),
        torch.full((1, 2, 4, 4), -1e30),
        torch.tensor([[[[1e30, -1e30], [1e30, 0]]]]),
        torch.tensor([[[[200.0, -200.0, 0.0]]]]),
        torch.tensor([[[[1e4], [-1e4]]]]),
        single_map({(2, 3): 1e4}),
    ],
    ids=["flat", "one cell", "one huge cell", "all far below", "±1e30", "one row", "one column", "one peak"],
)
def test_descriptors_and_gradients_are_finite(evidence: Tensor, dtype: torch.dtype) -> None:
    evidence = evidence.to(dtype, copy=True).requires_grad_()
    temperature = torch.tensor(1.0, dtype=dtype, requires_grad=True)
    z = to_descriptors(evidence, temperature)
    assert all(part.isfinite().all() for part in z)
    assert (z.centre.abs() <= 1 + 1e-6).all()
    assert ((z.presence >= 0) & (z.presence <= 1)).all()
    assert (z.extent > 0).all()
    gradients = torch.autograd.grad(total(z), (evidence, temperature))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_descriptors_stay_in_single_precision_under_autocast() -> None:
    bottleneck = PrimitiveBottleneck(8, PrimitivesConfig(count=4))
    features = random_evidence(2, 8, 5, 5).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = bottleneck(features)
        evidence = bottleneck.projection(features)
    assert evidence.dtype == torch.bfloat16
    assert {part.dtype for part in z} == {torch.float32}
    expected = to_descriptors(evidence.float(), bottleneck.log_temperature.exp())
    for part, wanted in zip(z, expected, strict=True):
        torch.testing.assert_close(part, wanted, rtol=0, atol=0.02)  # the products are rounded to bfloat16
