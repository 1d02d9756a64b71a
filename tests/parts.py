"""Small things that tests of many rooms are made of: generators, networks, trainers without data."""

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from parse_dg.algorithms.base import Algorithm, AlgorithmConfig, BuildContext
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.deploy.model_file import Model, ModelSpec
from parse_dg.errors import InputError
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.training.optimizer import OptimizerConfig
from parse_dg.training.trainer import Trainer, TrainingConfig


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def refusal(action: Callable[..., object], *given: Any, **settings: Any) -> str:
    """The one line with which it refuses what it is given."""
    with pytest.raises(InputError) as caught:
        action(*given, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def wait_until(condition: Callable[[], Any], seconds: float = 180.0) -> Any:
    """What the condition is, once it is true of something; by default long, as the machine may be busy."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
    return value


def stop_clock(monkeypatch: pytest.MonkeyPatch, module: ModuleType, now: Callable[[], float]) -> None:
    """`time.monotonic` as one module sees it: patched for all, it would stop the event loops of services."""
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "monotonic": now}))


def small_backbone(start: torch.Generator | None = None, stages: tuple[int, ...] = ()) -> Backbone:
    """The network `small`; after `stages` every batch is mixed by MixStyle."""
    return build_backbone(BackboneConfig(), MixStyleConfig(stages=stages, probability=1.0), start or seeded())


def spec_of(config: AlgorithmConfig) -> ModelSpec:
    """A model of three classes on that network."""
    classes = ("one", "two", "three")
    return ModelSpec(backbone=BackboneConfig(), algorithm=config, classes=classes, image_size=32)


def model_of(
    config: AlgorithmConfig,
    classes: tuple[str, ...] = ("one", "two", "three"),
    *,
    backbone: BackboneConfig | None = None,
    image_size: int = 64,
    seed: int = 0,
) -> Model:
    """A model before its first step."""
    spec = ModelSpec(
        backbone=backbone or BackboneConfig(), algorithm=config, classes=classes, image_size=image_size
    )
    start = seeded(seed)
    network = build_backbone(spec.backbone, MixStyleConfig(stages=()), start)
    return Model(spec, config.build(BuildContext(network, len(classes), generator=start)).eval())


def trainer_of(algorithm: Algorithm, rates: OptimizerConfig | None = None, **changes: Any) -> Trainer:
    """A trainer on the CPU without data, whose `update` is given batches, unless something is said otherwise."""
    given: dict[str, Any] = {
        "batches": iter(()),
        "validation": [],
        "steps": 1,
        "training": TrainingConfig(),
        "optimizer": rates or OptimizerConfig(),
        "augment": AugmentConfig(),
        "generator": seeded(),
        "device": torch.device("cpu"),
    }
    return Trainer(algorithm, **(given | changes))
