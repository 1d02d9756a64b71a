"""The recorded backbone: what is replayed and what is not, and that training with it is training without it.

Without CUDA a stand-in is recorded, which runs the same work again when it is replayed.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms import BuildContext
from parse_dg.algorithms.base import Algorithm, LossTerms, Minibatch, linear
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.data.loader import Batch
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.primitives import PrimitivesConfig
from parse_dg.training import recording
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.recording import Recording
from parse_dg.training.trainer import Trainer, TrainingConfig
from tests.parts import seeded, trainer_of

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="recordings are CUDA graphs: needs CUDA")
# PyTorch says so, once, when a graph is recorded; what is recorded is compared below.
pytestmark = pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match:UserWarning")

PLAIN = MixStyleConfig(stages=())
MIXED = MixStyleConfig(stages=(1, 2))
SHAPE = torch.Size((4, 3, 32, 32))


def backbone_of(mixstyle: MixStyleConfig = PLAIN) -> Backbone:
    return build_backbone(BackboneConfig(), mixstyle, seeded(0))


def images(seed: int = 1, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.randn(shape, generator=seeded(seed))


class Twice(Algorithm):
    """Two passes of one backbone in a step, like methods that compare two views of an image."""

    def __init__(self, backbone: Backbone):
        nn.Module.__init__(self)
        self.label_smoothing = 0.0
        self.backbone = backbone
        self.classifier = linear(backbone.channels, 3, seeded(2))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.backbone(images).mean((2, 3)))
        return logits

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        one, two = (
            self.classifier(self.backbone(view, generator).mean((2, 3)))
            for view in (example.images, example.images.flip(3))
        )
        return {
            "one": self.cross_entropy(one, example.labels),
            "two": self.cross_entropy(two, example.labels),
            "apart": (one - two).float().square().mean(),
        }


class Recorder:
    """Stands in for torch.cuda.make_graphed_callables."""

    def __init__(self) -> None:
        self.error = ""
        self.recorded, self.replayed = 0, 0
        self.pools: list[object] = []

    def __call__(self, work: nn.Module, examples: tuple[Tensor, ...], pool: object) -> Callable[..., Tensor]:
        self.recorded += 1
        self.pools.append(pool)
        work(*examples)  # rehearsals move the statistics of BatchNorm
        if self.error:
            raise RuntimeError(self.error)

        def replay(*given: Tensor) -> Tensor:
            assert [part.shape for part in given] == [part.shape for part in examples]
            self.replayed += 1
            result: Tensor = work(*given)
            return result

        return replay


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", found)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(recording, "_on_its_way", lambda part, device: part)  # there is nowhere to go
    return found


def same_state(found: nn.Module, expected: nn.Module) -> None:
    for (name, a), (_, b) in zip(found.state_dict().items(), expected.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


def test_the_first_pass_of_every_step_is_replayed_and_recorded_once(recorder: Recorder) -> None:
    backbone, plain = backbone_of(), backbone_of()
    record = Recording(backbone, SHAPE, bf16=False)
    for step in range(3):
        with record.in_place():
            first, second = backbone(images(step)), backbone(images(step + 9))  # the second in the plain way
        assert (recorder.recorded, recorder.replayed) == (1, step + 1)
        assert torch.equal(first, plain(images(step)))
        assert torch.equal(second, plain(images(step + 9)))
    same_state(backbone, plain)  # the rehearsal left no trace in the statistics


@pytest.mark.parametrize("case", ["other shape", "fewer images", "evaluation", "no gradients"])
def test_what_was_not_recorded_is_not_replayed(case: str, recorder: Recorder) -> None:
    backbone, plain = backbone_of(), backbone_of()
    record = Recording(backbone, SHAPE, bf16=False)
    shape = {"other shape": (4, 3, 64, 32), "fewer images": (3, 3, 32, 32)}.get(case, SHAPE)
    if case == "evaluation":
        backbone.eval()
        plain.eval()
    with record.in_place(), torch.set_grad_enabled(case != "no gradients"):
        found = backbone(images(3, shape))
    assert torch.equal(found, plain(images(3, shape)))
    assert recorder.replayed == 0
    with record.in_place():
        if case == "other shape":
            backbone(images(4, shape))  # takes nothing from the pass that fits
            plain(images(4, shape))
        backbone.train()
        plain.train()
        assert torch.equal(backbone(images(5)), plain(images(5)))
    assert recorder.replayed == 1
    same_state(backbone, plain)


def test_mixstyle_is_replayed_by_pattern_with_the_draws_it_would_have_made(recorder: Recorder) -> None:
    backbone, plain = backbone_of(MIXED), backbone_of(MIXED)
    record = Recording(backbone, SHAPE, bf16=False)
    draws, expected_draws = seeded(7), seeded(7)
    for step in range(12):
        with record.in_place():
            found = backbone(images(step), draws)
            again = backbone(images(step), draws)
        assert torch.equal(found, plain(images(step), expected_draws))
        assert torch.equal(again, plain(images(step), expected_draws))
        assert torch.equal(draws.get_state(), expected_draws.get_state())
    assert recorder.replayed == 12
    assert recorder.recorded == 4  # at neither place, at the first, at the second, at both
    assert len(set(map(id, recorder.pools))) == 1  # in one memory
    same_state(backbone, plain)


@pytest.mark.parametrize("mixstyle", [PLAIN, MIXED], ids=["plain", "mixstyle"])
def test_what_cannot_be_recorded_is_said_once_and_done_in_the_plain_way(
    mixstyle: MixStyleConfig, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.error = "operation not permitted\nwhen stream is capturing"
    backbone, plain = backbone_of(mixstyle), backbone_of(mixstyle)
    record = Recording(backbone, SHAPE, bf16=False)
    draws, expected_draws = seeded(8), seeded(8)
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            with record.in_place():
                found = backbone(images(step), draws)
            assert torch.equal(found, plain(images(step), expected_draws))
    assert (recorder.recorded, recorder.replayed) == (1, 0)
    (message,) = caplog.messages
    assert "cannot be recorded" in message
    assert message.endswith("operation not permitted")
    same_state(backbone, plain)


def batch(seed: int, size: int = 6) -> Batch:
    draw = seeded(seed)
    pixels = torch.randint(0, 256, (size, 3, 32, 32), generator=draw, dtype=torch.uint8)
    return Batch(pixels, torch.arange(size) % 3, torch.zeros(size, dtype=torch.long), None)


def trainer(algorithm: Algorithm, device: str, **training: Any) -> Trainer:
    rates = OptimizerConfig(backbone_rate=1e-4, head_rate=1e-3, composition_rate=1e-3)
    given = {"training": TrainingConfig(**training), "generator": seeded(3), "device": torch.device(device)}
    return trainer_of(algorithm, rates, steps=100, **given)


@pytest.mark.parametrize("name", ["erm", "twice", "parse"])
def test_on_the_cpu_nothing_is_recorded(name: str, recorder: Recorder) -> None:
    run = trainer(algorithm_of(name, PLAIN), "cpu", cuda_graph=True)
    for step in (1, 2):
        run.update(step, run.prepare_example(batch(step)))
    assert (recorder.recorded, recorder.replayed) == (0, 0)
    assert run.recording is None


def algorithm_of(name: str, mixstyle: MixStyleConfig) -> Algorithm:
    if name == "twice":
        return Twice(backbone_of(mixstyle))
    config = ErmConfig() if name == "erm" else ParseConfig(primitives=PrimitivesConfig(count=4))
    return config.build(BuildContext(backbone_of(mixstyle), 3, generator=seeded(1)))


@pytest.fixture
def exact() -> Iterator[None]:
    """Convolutions in full single precision, the same ones every time."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = before


def train(name: str, mixstyle: MixStyleConfig, sizes: list[int], **training: Any) -> tuple[Trainer, list[float]]:
    run = trainer(algorithm_of(name, mixstyle).train(), "cuda", **training)
    losses = []
    for step, size in enumerate(sizes, start=1):
        example = run.prepare_example(batch(step, size).to(run.device))
        losses.append(float(run.update(step, example)["total"]))
    return run, losses


def follows(found: Trainer, expected: Trainer, start: Algorithm, tolerance: float) -> None:
    """Parameters and statistics moved to the same place, measured by how far they moved.

    An entry with hardly any gradient may go either way in Adam, so entries are not compared one by one.
    """
    before = start.state_dict()
    for (name, a), b in zip(
        found.algorithm.state_dict().items(), expected.algorithm.state_dict().values(), strict=True
    ):
        if not a.is_floating_point():
            assert torch.equal(a, b), name
            continue
        moved = (b.cpu() - before[name]).norm().item()
        assert (a - b).norm().item() <= tolerance * moved + 1e-6, name


SAME = [6] * 6
OTHER = [6, 6, 4, 6, 3, 6]
"""Sizes of the batches of six steps."""


@on_cuda
@pytest.mark.parametrize("sizes", [SAME, OTHER], ids=["batches alike", "batches of other sizes"])
@pytest.mark.parametrize("mixstyle", [PLAIN, MIXED], ids=["plain", "mixstyle"])
@pytest.mark.parametrize("name", ["erm", "twice", "parse"])
@pytest.mark.usefixtures("exact")
def test_training_with_a_recording_is_training_without(
    name: str, mixstyle: MixStyleConfig, sizes: list[int]
) -> None:
    found, losses = train(name, mixstyle, sizes, precision="float32", cuda_graph=True)
    expected, expected_losses = train(name, mixstyle, sizes, precision="float32", cuda_graph=False)
    assert losses == pytest.approx(expected_losses, rel=1e-4)
    assert len(set(losses)) == 6
    follows(found, expected, algorithm_of(name, mixstyle), tolerance=0.05)
    assert expected.recording is None
    assert found.recording is not None
    assert found.recording.possible
    assert len(found.recording.recorded) == 1 if mixstyle is PLAIN else 1 <= len(found.recording.recorded) <= 4
    statistics = dict(found.algorithm.named_buffers())
    assert any(name.endswith("num_batches_tracked") for name in statistics)
    passes = 12 if name == "twice" else 6
    assert all(int(v) == passes for n, v in statistics.items() if n.endswith("num_batches_tracked"))
