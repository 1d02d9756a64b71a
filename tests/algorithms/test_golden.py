"""Our methods, step by step beside the code of their authors: losses, predictions, parameters.

ERM++, SWAD, MIRO, MixStyle and DomainBed's sweep have recordings too, read where those are tested: `-k golden` runs
all.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from parse_dg.algorithms.base import Algorithm
from parse_dg.algorithms.cdann import Cdann, CdannConfig
from parse_dg.algorithms.coral import Coral, CoralConfig
from parse_dg.algorithms.dann import Dann, DannConfig
from parse_dg.algorithms.erm import Erm, ErmConfig
from parse_dg.algorithms.group_dro import GroupDro, GroupDroConfig
from parse_dg.algorithms.mixup import Mixup, MixupConfig
from parse_dg.algorithms.sagnet import SagNet, SagNetConfig
from parse_dg.training.optimizer import OptimizerConfig
from tests.algorithms import golden
from tests.algorithms.golden import State, Trace

pytestmark = pytest.mark.golden

POOLED = {"featurizer.": "backbone.", "classifier.": "classifier."}


def rates(trace: Trace) -> OptimizerConfig:
    return golden.constant(trace.hparams["lr"], trace.hparams["weight_decay"])


def run(
    trace: Trace,
    algorithm: Algorithm,
    names: Callable[[State], State],
    terms: dict[str, str],
    *,
    optimizer: OptimizerConfig | None = None,
    before: Callable[[int], None] = lambda step: None,
) -> None:
    """Replays a trace and compares; `names` gives official parameters our names, `terms` ours the official ones."""
    state = algorithm.state_dict()
    start = names(trace.initial())
    assert set(start) == set(state)
    algorithm.load_state_dict(start)
    compared = 0
    for step, (found, prediction) in enumerate(golden.replay(trace, algorithm, optimizer or rates(trace), before)):
        for official, expected in trace.losses[step].items():
            assert found[terms[official]].item() == pytest.approx(
                expected, golden.TOLERANCE, golden.TOLERANCE / 10
            ), f"step {step}"
            compared += 1
        golden.assert_same(prediction, trace.prediction(step))
    assert compared >= trace.steps
    golden.assert_same(algorithm.state_dict(), names(trace.final()))


def pooled(state: State) -> State:
    return golden.renamed(state, POOLED)


def test_erm() -> None:
    trace = golden.load("ERM")
    run(trace, Erm(ErmConfig(), trace.context()), pooled, {"loss": "total"})


def adversarial_settings(trace: Trace) -> dict[str, Any]:
    hparams = trace.hparams
    assert hparams.get("mlp_dropout", 0) == 0  # the draws of dropout are not recorded
    return {
        "weight": hparams["lambda"],
        "discriminator_steps": hparams["d_steps_per_g_step"],
        "gradient_penalty": hparams["grad_penalty"],
        "beta1": hparams["beta1"],
        "width": hparams["mlp_width"],
        "depth": hparams["mlp_depth"],
        "discriminator_rate": hparams["lr_d"] / hparams["lr_g"],
        "discriminator_decay": hparams["weight_decay_d"],
    }


def adversarial_names(config: DannConfig, *others: str) -> Callable[[State], State]:
    """The official layers of the discriminator have names, ours numbers, with a ReLU after each."""
    prefixes = {**POOLED, "update_count": "update_count", **{other: other for other in others}}
    prefixes["discriminator.input."] = "discriminator.0."
    for hidden in range(config.depth - 2):
        prefixes[f"discriminator.hiddens.{hidden}."] = f"discriminator.{2 * hidden + 2}."
    prefixes["discriminator.output."] = f"discriminator.{2 * config.depth - 2}."
    return lambda state: golden.renamed(state, prefixes)


@pytest.mark.parametrize(
    ("name", "kind", "settings", "others"),
    [("DANN", Dann, DannConfig, ()), ("CDANN", Cdann, CdannConfig, ("class_embeddings.",))],
)
def test_dann_and_cdann(name: str, kind: type[Dann], settings: type[DannConfig], others: tuple[str, ...]) -> None:
    trace = golden.load(name)
    config = settings(**adversarial_settings(trace))
    names = adversarial_names(config, *others)
    rates = golden.constant(trace.hparams["lr_g"], trace.hparams["weight_decay_g"])
    terms = {"gen_loss": "total", "disc_loss": "total"}
    run(trace, kind(config, trace.context()), names, terms, optimizer=rates)


def test_group_dro() -> None:
    trace = golden.load("GroupDRO")

    def names(state: State) -> State:
        weights = state["q"] if len(state["q"]) else torch.ones(trace.domains)  # theirs grow at the first step
        return {**pooled(state), "q": weights}

    config = GroupDroConfig(eta=trace.hparams["groupdro_eta"])
    algorithm = GroupDro(config, trace.context())
    run(trace, algorithm, names, {"loss": "total"})


def test_mixup(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = golden.load("Mixup")
    config = MixupConfig(alpha=trace.hparams["mixup_alpha"])
    algorithm = Mixup(config, trace.context())

    def before(step: int) -> None:
        order, *shares = trace.draws(step)
        monkeypatch.setattr(algorithm, "draw", lambda generator: (order, torch.stack(shares)))

    run(trace, algorithm, pooled, {"loss": "total"}, before=before)


def test_sagnet(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = golden.load("SagNet")
    config = SagNetConfig(weight=trace.hparams["sag_w_adv"])
    algorithm = SagNet(config, trace.context())
    prefixes = {"network_f.": "backbone.", "network_c.": "classifier.", "network_s.": "style_classifier."}
    left: list[Tensor] = []

    def before(step: int) -> None:
        assert left == []
        left.extend(trace.draws(step))

    monkeypatch.setattr(algorithm, "draw", lambda size, generator: (left.pop(0), left.pop(0)))
    terms = {"loss_c": "cross_entropy", "loss_s": "style", "loss_adv": "adversary"}
    run(trace, algorithm, lambda state: golden.renamed(state, prefixes), terms, before=before)
    assert left == []


def test_coral() -> None:
    trace = golden.load("CORAL")
    gamma = trace.hparams["mmd_gamma"]
    for each in trace.losses:  # theirs is logged without its weight, and also where it has none
        penalty = each.pop("penalty")
        each |= {"penalty": gamma * penalty} if gamma else {}
    algorithm = Coral(CoralConfig(gamma=gamma), trace.context())
    run(trace, algorithm, pooled, {"loss": "cross_entropy", "penalty": "alignment"})
