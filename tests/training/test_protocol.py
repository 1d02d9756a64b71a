"""The rules of a run: which go together, and what is said of each."""

from typing import Any

import pytest

from parse_dg.data.splits import SplitConfig
from parse_dg.errors import InputError
from parse_dg.training.protocol import ProtocolConfig, protocol_sentences

IN = SplitConfig(target_images="in")
BESIDE = SplitConfig(validation_domain="cartoon")


@pytest.mark.parametrize(
    ("protocol", "split"),
    [
        (ProtocolConfig(), SplitConfig()),
        (ProtocolConfig(), IN),
        (ProtocolConfig(), SplitConfig(scheme="gvrt-split")),
        (ProtocolConfig(selection="oracle"), IN),
        (ProtocolConfig(selection="leave-one-domain-out"), BESIDE),
        (ProtocolConfig(selection="leave-one-domain-out"), SplitConfig(target_images="in", validation_domain="a")),
    ],
)
def test_what_goes_together(protocol: ProtocolConfig, split: SplitConfig) -> None:
    protocol.check_against(split)
    assert protocol_sentences(protocol, split)


@pytest.mark.parametrize(
    ("protocol", "split", "message"),
    [
        (ProtocolConfig(selection="oracle"), SplitConfig(), "set split.target_images=in"),
        (
            ProtocolConfig(selection="oracle"),
            SplitConfig(scheme="gvrt-split"),
            "looks at the target's held-out 20%",
        ),
        (ProtocolConfig(selection="leave-one-domain-out"), SplitConfig(), "found leave-one-domain-out and none"),
        (ProtocolConfig(), BESIDE, "found training-domain and cartoon"),
        (
            ProtocolConfig(selection="oracle"),
            SplitConfig(target_images="in", validation_domain="cartoon"),
            "split.validation_domain=DOMAIN go together: found oracle and cartoon",
        ),
    ],
)
def test_what_does_not(protocol: ProtocolConfig, split: SplitConfig, message: str) -> None:
    with pytest.raises(InputError) as error:
        protocol.check_against(split)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def said(protocol: dict[str, Any] | None = None, **split: Any) -> str:
    return " ".join(protocol_sentences(ProtocolConfig(**(protocol or {})), SplitConfig(**split)))


def test_the_split_is_said() -> None:
    assert "Of each source domain 20% of the images are held out, drawn by the run's seed" in said()
    assert "Of each source domain 35% of the images are held out, drawn by seed 3 " in said(holdout=0.35, seed=3)
    assert "drawn by seed 0 " in said(seed=0)
    assert "its own lists of the archive's split.json" in said(scheme="gvrt-split")
    assert "drawn" not in said(scheme="gvrt-split")


def test_the_targets_images_are_said() -> None:
    assert "The target is scored on all of its images." in said()
    assert "The target is scored on the 80% its own hold-out leaves." in said(target_images="in")
    assert "The target is scored on the 65% its own" in said(target_images="in", holdout=0.35)
    assert "The target is scored on the archive's test list." in said(scheme="gvrt-split")


def test_a_domain_that_is_not_trained_on_is_named() -> None:
    words = said({"selection": "leave-one-domain-out", "augment_validation": True}, validation_domain="cartoon")
    assert "cartoon is not trained on: what its own hold-out leaves is scored, not augmented." in words
    assert "not trained on" not in said()


def test_augmentation_is_said() -> None:
    assert "Held-out images are not augmented." in said()
    assert "Held-out images are augmented like the images that train." in said({"augment_validation": True})


@pytest.mark.parametrize("checks", ["target", "everything"])
def test_looks_at_the_target_are_said(checks: str) -> None:
    assert "the target is read once, at the end" in said()
    assert "read once" not in said({"checks": checks})
    assert "Checks score the target too, for the record" in said({"checks": checks})
