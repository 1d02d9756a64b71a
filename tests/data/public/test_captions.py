"""Captions in batches: one sentence about each image, drawn with it, and nothing changed where none are wanted."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor

from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.data.domain import Domain
from parse_dg.data.loader import TrainingBatches
from parse_dg.data.sampling import Sampler, SamplingConfig, captions_of
from parse_dg.data.splits import Subset, whole
from parse_dg.errors import InputError
from tests.conftest import Numbered
from tests.parts import refusal

SENTENCES = 3


def captioned(domain: Domain, offset: int = 0) -> Domain:
    """Image n has the sentences `offset n 0`, `offset n 1`, …: one for image 0, otherwise three."""
    numbers = domain.labels.tolist()
    sentences = (tuple(f"{offset} {n} {s}" for s in range(SENTENCES if n else 1)) for n in numbers)
    return replace(domain, captions=tuple(sentences))


def sources(numbered: Numbered) -> list[Subset]:
    photo, cartoon = captioned(numbered("photo", 9)), captioned(numbered("cartoon", 6), offset=1)
    return [Subset(photo, np.array([8, 0, 5, 2, 3])), whole(cartoon)]


def build(subsets: Sequence[Subset], captions: bool, per_image: bool = False) -> Sampler:
    order, draws = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    augment = AugmentConfig(per_image=per_image)
    return Sampler(subsets, 4, SamplingConfig(), augment, order=order, draws=draws, captions=captions)


class Spelled:
    """The sentences here are numbers."""

    def encode(self, sentences: Sequence[str]) -> Tensor:
        return torch.tensor([[int(number) for number in sentence.split()] for sentence in sentences])


@pytest.mark.parametrize("per_image", [False, True])
def test_every_sentence_is_about_its_image(numbered: Numbered, per_image: bool) -> None:
    batches = TrainingBatches(build(sources(numbered), True, per_image), 4, captions=Spelled())
    for batch in islice(batches, 10):
        assert batch.captions is not None
        assert batch.captions.shape == (8, 3)
        assert torch.equal(batch.captions[:, 0], batch.domains)
        assert torch.equal(batch.captions[:, 1], batch.labels)


def test_the_order_of_images_does_not_depend_on_captions(numbered: Numbered) -> None:
    one, two = build(sources(numbered), True), build(sources(numbered), False)
    for _ in range(10):
        pairs = zip(one.plan().positions, two.plan().positions, strict=True)
        assert all(torch.equal(mine, other) for mine, other in pairs)


def test_a_restored_sampler_draws_the_same_sentences(numbered: Numbered) -> None:
    batches = TrainingBatches(build(sources(numbered), True), 4, captions=Spelled())
    next(batches)
    state = batches.state()
    following = [batch.captions for batch in islice(batches, 5)]
    again = TrainingBatches(build(sources(numbered), True), 4, captions=Spelled())
    again.restore(state)
    assert all(torch.equal(mine, batch.captions) for mine, batch in zip(following, again, strict=False))


def test_images_without_a_sentence_are_one_clear_line(numbered: Numbered) -> None:
    plain = whole(numbered("photo", 1200))
    with pytest.raises(InputError, match=r"1,200 of the 1,200 of domain photo have none: .* data.definitions=FILE"):
        build([plain], True)
    some = captioned(numbered("photo", 4))
    some = replace(some, captions=(*some.captions[:3], ()))
    assert "1 of the 3 of domain photo have none" in refusal(captions_of, Subset(some, np.array([1, 3, 0])))
    assert captions_of(Subset(some, np.array([2, 0]))) == [("0 2 0", "0 2 1", "0 2 2"), ("0 0 0",)]
