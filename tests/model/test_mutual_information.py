"""MIRO's regulariser against the official code's figures, a slow loop, and what it promises; a backbone's taps."""

import math

import pytest
import torch
from torch import Tensor, nn

from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.mutual_information import MutualInformation, divergence
from parse_dg.training.recording import Recording, find_backbone
from tests.algorithms import golden
from tests.parts import seeded

ALIKE = 5 * 0.5 * math.log(0.1)
"""Of five taps at which student and teacher agree, at the start: -5.75646."""
MIXED = MixStyleConfig(stages=(1, 2), probability=1.0)


def backbone(name: str = "small", mixstyle: MixStyleConfig = MixStyleConfig(stages=())) -> Backbone:  # noqa: B008
    return build_backbone(BackboneConfig(name=name), mixstyle, seeded())


def images(size: int = 4, seed: int = 1) -> Tensor:
    return torch.randn(size, 3, 32, 32, generator=seeded(seed))


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.golden
def test_official_figures() -> None:
    record = {key: torch.from_numpy(value) for key, value in golden.arrays("MIRO").items()}
    taps = sorted({key.split("/")[0] for key in record} - {"total"})
    assert taps
    found = []
    for tap in taps:
        student, teacher, raw, loss = (record[f"{tap}/{x}"] for x in ("student", "teacher", "raw_variance", "loss"))
        found.append(divergence(student, teacher, raw))
        assert found[-1].item() == pytest.approx(loss.item(), abs=1e-5)
    assert sum(found).item() == pytest.approx(record["total"].item(), abs=1e-5)  # type: ignore[union-attr]


def test_formula_against_loop() -> None:
    f, f0, raw = normal(2, 3, 4, 5, seed=1), normal(2, 3, 4, 5, seed=2), normal(1, 3, 1, 1, seed=3)
    values = []
    for c in range(3):
        of_channel = math.log(1 + math.exp(raw[0, c].item())) + 1e-5
        for a, b in zip(f[:, c].flatten().tolist(), f0[:, c].flatten().tolist(), strict=True):
            values.append(((a - b) ** 2 / of_channel + math.log(of_channel)) / 2)
    assert divergence(f, f0, raw).item() == pytest.approx(sum(values) / len(values), 1e-12)


def test_gradients_against_differences() -> None:
    f, f0, raw = (normal(*shape, seed=i) for i, shape in enumerate([(2, 3, 2, 2)] * 2 + [(1, 3, 1, 1)]))
    assert torch.autograd.gradcheck(divergence, (f.requires_grad_(), f0, raw.requires_grad_()))


@pytest.mark.parametrize("name", ["small", "local", "resnet18"])
def test_a_student_that_is_its_teacher(name: str) -> None:
    student = backbone(name).eval()
    with torch.no_grad():
        found = MutualInformation(student)(images(2), student.features(images(2)))
    assert found.item() == pytest.approx(ALIKE, abs=1e-5)
    assert pytest.approx(-5.75646, abs=1e-5) == ALIKE


def test_the_teacher_is_no_part_of_the_module() -> None:
    student = backbone()
    regulariser = MutualInformation(student)
    names = [f"raw_variances.{tap}" for tap in range(5)]
    assert [name for name, _ in regulariser.named_parameters()] == names
    assert list(regulariser.state_dict()) == names
    assert not list(regulariser.buffers())
    assert find_backbone(regulariser) is None
    assert find_backbone(nn.ModuleList([student, regulariser])) is student
    regulariser.train()(images(), student.features(images())).backward()
    assert not any(module.training for module in regulariser.teacher.modules())
    assert all(parameter.grad is None for parameter in regulariser.teacher.parameters())


def test_a_tapped_pass_is_the_pass_and_leaves_its_maps() -> None:
    student, plain = backbone(mixstyle=MIXED), backbone(mixstyle=MIXED)
    with student.tapped() as maps:
        assert maps == []
        found = student(images(), seeded(5))
    assert torch.equal(found, plain(images(), seeded(5)))
    assert found is maps[-1]
    again = backbone(mixstyle=MIXED).features(images(), seeded(5))
    assert all(torch.equal(one, other) for one, other in zip(maps, again, strict=True))
    student(images(seed=2), seeded(5))
    assert found is maps[-1]
    assert "forward" not in vars(student)


def test_a_tapped_pass_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last map comes out of a recording."""
    student = backbone()
    record = Recording(student, images().shape, bf16=False)
    replayed = []
    monkeypatch.setattr(record, "_replay", lambda plain, given, generator: replayed.append(given) or plain(given))
    with record.in_place():
        with student.tapped() as maps:
            student(images())
        assert len(maps) == 5
        assert replayed == []
        student(images())
        assert len(replayed) == 1  # the recording is in its place again
    assert "forward" not in vars(student)
