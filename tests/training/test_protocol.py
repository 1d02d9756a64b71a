"""The rules of a run: which go together, and what is said of each."""

from typing import Any

import pytest

from parse_dg.data.splits import SplitConfig
from parse_dg.training.protocol import ProtocolConfig, protocol_sentences


def said(protocol: dict[str, Any] | None = None, **split: Any) -> str:
    return " ".join(protocol_sentences(ProtocolConfig(**(protocol or {})), SplitConfig(**split)))


def test_the_split_is_said() -> None:
    assert "Of each source domain 20% of the images are held out, drawn by the run's seed" in said()
    assert "Of each source domain 35% of the images are held out, drawn by seed 3 " in said(holdout=0.35, seed=3)
    assert "drawn by seed 0 " in said(seed=0)
    assert "its own lists of the archive's split.json" in said(scheme="gvrt-split")
    assert "drawn" not in said(scheme="gvrt-split")
    assert "train_valid of the archive's split.json and validates on its test list" in said(scheme="train-valid")


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
