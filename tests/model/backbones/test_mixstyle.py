"""MixStyle against the official code's figures, a slow loop, and what it promises."""

import math

import pytest
import torch
from torch import Tensor

from parse_dg.model.backbones.mixstyle import MixStyle, MixStyleConfig, draw_beta, draw_partners, mix_styles
from tests.algorithms import golden
from tests.parts import seeded

GOLDEN = golden.arrays("MixStyle")


def batch(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return 3 * torch.randn(*shape, generator=seeded(seed), dtype=dtype) + 1


@pytest.mark.golden
@pytest.mark.parametrize("case", sorted({key.split("/")[0] for key in GOLDEN}))
def test_official_figures(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {key.split("/")[1]: value for key, value in GOLDEN.items() if key.startswith(f"{case}/")}
    features = torch.from_numpy(record["x"])
    drawn = iter([torch.from_numpy(record[key]) for key in sorted(record) if key.startswith("randperm")])
    monkeypatch.setattr(torch, "randperm", lambda size, generator: next(drawn))
    partners = draw_partners(str(record["mode"]), len(features), seeded())
    out = mix_styles(features, partners, torch.from_numpy(record["lambda"]).flatten())
    torch.testing.assert_close(out, torch.from_numpy(record["out"]), atol=1e-6, rtol=1e-6)
    assert next(drawn, None) is None


def test_formula_against_loop() -> None:
    x, lam = batch(4, 3, 2, 5, dtype=torch.float64), torch.tensor([0.0, 0.3, 1.0, 0.9], dtype=torch.float64)
    partners = [2, 0, 3, 1]

    def style(b: int, c: int) -> tuple[float, float]:
        values = x[b, c].flatten().tolist()
        mean = sum(values) / len(values)
        return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) + 1e-6)

    out = mix_styles(x, torch.tensor(partners), lam)
    for b, partner in enumerate(partners):
        for c in range(3):
            weight, (mean, std), (other_mean, other_std) = float(lam[b]), style(b, c), style(partner, c)
            mixed_mean = weight * mean + (1 - weight) * other_mean
            mixed_std = weight * std + (1 - weight) * other_std
            torch.testing.assert_close(out[b, c], (x[b, c] - mean) / std * mixed_std + mixed_mean)


def test_gradient_reaches_features_but_not_statistics() -> None:
    x = batch(3, 2, 4, 4, dtype=torch.float64).requires_grad_()
    partners, lam = torch.tensor([1, 2, 0]), torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    mix_styles(x, partners, lam).sum().backward()
    # Were the statistics part of the graph, the normalised values of a channel would sum to a constant.
    std = (x.detach().var(dim=(2, 3), keepdim=True) + 1e-6).sqrt()
    weight = lam[:, None, None, None]
    expected = (weight * std + (1 - weight) * std[partners]) / std
    torch.testing.assert_close(x.grad, expected.expand_as(x))


def test_half_precision_uses_float32_statistics() -> None:
    x, partners, lam = batch(4, 3, 8, 8).bfloat16(), torch.tensor([3, 2, 1, 0]), torch.full((4,), 0.3)
    out = mix_styles(x, partners, lam)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, mix_styles(x.float(), partners, lam).bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(out, mix_styles(x, partners, lam))
        assert mix_styles(x.float(), partners, lam).dtype == torch.float32


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 0.5, 1.0, 4.0])
def test_beta_moments(alpha: float) -> None:
    n = 200_000
    lam = draw_beta(alpha, n, seeded(3))
    assert lam.dtype == torch.float32
    assert lam.isfinite().all()
    assert lam.min() >= 0
    assert lam.max() <= 1
    # The second and fourth central moments of Beta(α, α).
    second = 1 / (4 * (2 * alpha + 1))
    fourth = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3))
    centred = lam.double() - 0.5
    assert abs(centred.mean()) < 5 * math.sqrt(second / n)
    assert abs(centred.square().mean() - second) < 5 * math.sqrt((fourth - second**2) / n) + 1e-9
    assert abs(centred.pow(4).mean() - fourth) < 5 * math.sqrt(1 / 256 / n)


def test_reproducible_from_the_generator_alone() -> None:
    x, module = batch(8, 3, 5, 5), MixStyle(MixStyleConfig(probability=1.0))
    before = torch.get_rng_state()
    first, again, other = module(x, seeded(5)), module(x, seeded(5)), module(x, seeded(6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, x)
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_in_the_documented_order() -> None:
    x, generator = batch(6, 2, 3, 3), seeded(7)
    torch.rand((), generator=generator)
    lam = draw_beta(0.1, 6, generator)
    partners = draw_partners("crossdomain", 6, generator)
    module = MixStyle(MixStyleConfig(probability=1.0, mode="crossdomain"))
    assert torch.equal(module(x, seeded(7)), mix_styles(x, partners, lam))


def test_training_needs_a_generator() -> None:
    with pytest.raises(ValueError, match=r"needs a CPU torch.Generator while training, found none"):
        MixStyle(MixStyleConfig())(batch(2, 1, 2, 2), None)
