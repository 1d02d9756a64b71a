"""The evaluation protocol: model selection, validation images, and what checks score."""

from dataclasses import dataclass
from typing import Literal

from parse_dg.config import Config
from parse_dg.data.splits import SplitConfig

SelectionName = Literal["training-domain", "leave-one-domain-out", "oracle"]

SELECTION_NAMES: dict[str, str] = {
    "training-domain": "training-domain validation: the check with the highest mean accuracy over the source "
    "domains' held-out images",
    "leave-one-domain-out": "leave-one-domain-out validation: the check with the highest accuracy on a source "
    "domain that is not trained on",
    "oracle": "oracle: the last step; hyper-parameters are to be chosen by the accuracy on 20% of the target, "
    "whose labels would not be known",
}
"""What each way of choosing the weights does, in words."""


@dataclass(frozen=True, kw_only=True)
class ProtocolConfig(Config):
    """How a run is scored; `split` says on which images."""

    name: str = "parse"
    """The preset this began from; nothing depends on it."""
    selection: SelectionName = "training-domain"
    """`training-domain`: the check with the best accuracy on held-out images of the source domains.
    `leave-one-domain-out`: with the best on a source domain that is not trained on. `oracle`: the last step."""
    augment_validation: bool = False
    """Whether held-out images of the source domains are augmented like those that train, as in DomainBed."""
    checks: Literal["validation", "target", "everything"] = "validation"
    """`target`: every check also scores the target, `everything`: and the images that train. Recorded, never used
    to choose; tables that select over several runs need it."""


def protocol_sentences(protocol: ProtocolConfig, split: SplitConfig, target: bool = True) -> list[str]:
    """What was done, a sentence each: written into the run; `target`: whether a domain is held out."""
    if split.listed:
        split_words = "Each source domain trains and validates on its own lists of the archive's split.json."
        if split.scheme == "train-valid":
            split_words = (
                "Each source domain trains on the list train_valid of the archive's split.json and validates on "
                "its test list: on the photographs that the target is scored on, in other styles."
            )
        target_words = "The target is scored on the archive's test list."
    else:
        seeded = "the run's seed" if split.seed is None else f"seed {split.seed}"
        split_words = (
            f"Of each source domain {100 * split.holdout:g}% of the images are held out, drawn by {seeded} as "
            "DomainBed draws them."
        )
        target_words = "The target is scored on all of its images."
        if split.target_images == "in":
            target_words = f"The target is scored on the {100 - 100 * split.holdout:g}% its own hold-out leaves."
    beside = f"{split.validation_domain} is not trained on: what its own hold-out leaves is scored, not augmented."
    augmented = "augmented like the images that train" if protocol.augment_validation else "not augmented"
    looked = "Checks look at validation images only; the target is read once, at the end."
    if not target:
        target_words = "No domain is held out: all of them are sources, and no number is of an unseen domain."
        looked = "Checks look at validation images of all domains; what others they score is for the record."
    elif protocol.checks != "validation":
        looked = "Checks score the target too, for the record; what is chosen does not depend on it."
    return [
        *(split_words, target_words, *([beside] if split.validation_domain else [])),
        *(f"Held-out images are {augmented}.", looked, f"{SELECTION_NAMES[protocol.selection]}."),
    ]
