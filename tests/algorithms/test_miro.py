"""MIRO: ERM, and a regulariser that holds its features to those of a teacher that nobody else sees."""

import copy
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from parse_dg.algorithms.base import Algorithm, BuildContext, Minibatch
from parse_dg.algorithms.erm import Erm, ErmConfig
from parse_dg.algorithms.miro import TUNED, Miro, MiroConfig
from parse_dg.data.loader import Batch
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.training.optimizer import OptimizerConfig, build_optimizer
from parse_dg.training.trainer import Trainer, TrainingConfig
from tests.parts import seeded, small_backbone, trainer_of

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def build(stages: tuple[int, ...] = (), **settings: Any) -> Miro:
    return Miro(MiroConfig(**settings), BuildContext(small_backbone(stages=stages), 3, generator=seeded(1)))


@pytest.fixture(scope="module")
def example() -> Minibatch:
    images = torch.randn(6, 3, 32, 32, generator=seeded(1))
    return Minibatch(images, torch.tensor([0, 1, 2, 0, 1, 2]), torch.zeros(6, dtype=torch.long))


def trainer(algorithm: Algorithm, device: str = "cpu", **training: Any) -> Trainer:
    pixels = torch.randint(0, 256, (6, 3, 32, 32), generator=seeded(4), dtype=torch.uint8)
    return trainer_of(
        algorithm,
        OptimizerConfig(backbone_rate=1e-3, head_rate=1e-2),
        batches=repeat(Batch(pixels, torch.arange(6) % 3, torch.zeros(6, dtype=torch.long), None)),
        steps=3,
        training=TrainingConfig(**training),
        generator=seeded(3),
        device=torch.device(device),
    )


def train(algorithm: Algorithm, device: str = "cpu", **training: Any) -> list[float]:
    """The loss of three steps."""
    run = trainer(algorithm.train(), device, **training)
    given = run.prepare_example(next(run.batches).to(run.device))
    return [float(run.update(step, given)["total"]) for step in (1, 2, 3)]


def test_it_is_erm_and_the_regulariser_with_its_weight(example: Minibatch) -> None:
    erm = Erm(ErmConfig(dropout=0.5), BuildContext(small_backbone(stages=(1, 2)), 3, generator=seeded(1)))
    expected = erm.losses(example, seeded(5))["cross_entropy"].item()
    found = build((1, 2), dropout=0.5, weight=0.25).losses(example, seeded(5))
    assert list(found) == ["cross_entropy", "mutual_information"]
    assert found["cross_entropy"].item() == pytest.approx(expected, 1e-6)
    doubled = build((1, 2), dropout=0.5, weight=0.5).losses(example, seeded(5))
    assert doubled["mutual_information"].item() == pytest.approx(2 * found["mutual_information"].item(), 1e-5)


def test_the_term_reaches_backbone_and_variances_and_no_more(example: Minibatch) -> None:
    miro = build()
    miro.losses(example, seeded())["mutual_information"].backward()
    reached = {id(p) for p in miro.parameters() if p.grad is not None and p.grad.any()}
    groups = miro.groups()
    assert reached == {id(p) for p in (*groups["backbone"], *groups["encoders"])}


def test_the_variances_have_a_group_and_ten_times_the_rate_of_the_backbone() -> None:
    miro = build()
    shapes = [(1, channels, 1, 1) for channels in (16, 16, 32, 64, 64)]
    assert [tuple(p.shape) for p in miro.groups()["encoders"]] == shapes
    rates = OptimizerConfig(backbone_rate=3e-5, head_rate=1e-4, weight_decay=1e-6)
    found = {group["name"]: group for group in build_optimizer(miro, rates).param_groups}
    assert {name: group["lr"] for name, group in found.items()} == pytest.approx(
        {"backbone": 3e-5, "head": 1e-4, "encoders": 3e-4}
    )
    assert {group["weight_decay"] for group in found.values()} == {1e-6}
    slower = {group["name"]: group["lr"] for group in build_optimizer(build(rate_factor=2), rates).param_groups}
    assert slower["encoders"] == pytest.approx(6e-5)


def test_the_teacher_never_changes_and_is_in_no_group() -> None:
    miro = build()
    teacher = miro.mutual_information.teacher
    before = copy.deepcopy(teacher.state_dict())
    start = copy.deepcopy(miro.state_dict())
    grouped = {id(p) for parameters in miro.groups().values() for p in parameters}
    assert grouped == {id(p) for p in miro.parameters()}
    assert not grouped & {id(p) for p in teacher.parameters()}
    train(miro)
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())
    assert all(not torch.equal(value, start[name]) for name, value in miro.named_parameters())


def packed(miro: Miro) -> dict[str, Tensor]:
    return {name: value.contiguous() for name, value in miro.state_dict().items()}


def test_a_model_file_holds_the_student_and_fits_a_network_with_another_teacher(
    example: Minibatch, tmp_path: Path
) -> None:
    miro = build()
    train(miro)
    save_file(packed(miro), tmp_path / "model.safetensors")
    state = load_file(tmp_path / "model.safetensors")
    erm = Erm(ErmConfig(), BuildContext(small_backbone(), 3)).state_dict()
    assert set(state) - set(erm) == {f"mutual_information.raw_variances.{tap}" for tap in range(5)}
    assert set(erm) <= set(state)
    other = small_backbone(seeded(8))
    fresh = Miro(MiroConfig(), BuildContext(other, 3)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    fresh.load_state_dict(state)
    with torch.no_grad():
        assert torch.equal(fresh.eval()(example.images), miro.eval()(example.images))


def test_the_tuned_settings_are_of_benchmarks_that_are_known() -> None:
    assert set(TUNED) == set(DATA_SETS) - {"cub-dg"}
    for tuned in TUNED.values():
        MiroConfig(weight=tuned.weight, dropout=tuned.dropout)
        OptimizerConfig(backbone_rate=tuned.rate, head_rate=tuned.rate, weight_decay=tuned.weight_decay)


@on_cuda
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_on_cuda_a_recording_changes_nothing(precision: str) -> None:
    losses = [train(build((1, 2)), "cuda", precision=precision, cuda_graph=graph) for graph in (True, False)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3 if precision == "float32" else 2e-2)
