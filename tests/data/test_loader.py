"""Batches: as many of every domain, each image once a pass, and the same again from the same generator."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch

from parse_dg.data.augment import AugmentConfig
from parse_dg.data.loader import Batch, TrainingBatches, evaluation_batches, load_images
from parse_dg.data.sampling import Sampler, SamplingConfig
from parse_dg.data.splits import Subset, whole
from parse_dg.errors import InputError
from tests.conftest import Numbered


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def training(
    sources: list[Subset], per_domain: int, order: torch.Generator, sampling: SamplingConfig | None = None
) -> TrainingBatches:
    config = sampling or SamplingConfig()
    sampler = Sampler(sources, per_domain, config, AugmentConfig(), order=order, draws=generator(1))
    return TrainingBatches(sampler, image_size=4)


@pytest.fixture
def sources(numbered: Numbered) -> list[Subset]:
    """Domains of 12, 7 and 3 images."""
    return [whole(numbered(name, count)) for name, count in (("photo", 12), ("cartoon", 7), ("paint", 3))]


def of_domain(batches: list[Batch], number: int) -> list[int]:
    """The images of one domain in the order they came, by their number."""
    return [int(label) for batch in batches for label in batch.labels[batch.domains == number]]


# training


def test_a_batch_has_as_many_images_of_every_domain_in_order(sources: list[Subset]) -> None:
    for batch in islice(training(sources, 4, generator()), 10):
        assert batch.domains.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert batch.images.shape == (12, 3, 4, 4)
        assert batch.images.dtype == torch.uint8
        assert batch.labels.shape == (12,)


def test_images_and_labels_belong_together(sources: list[Subset]) -> None:
    for batch in islice(training(sources, 5, generator()), 10):
        assert (batch.images == batch.labels[:, None, None, None]).all()


@pytest.mark.parametrize("per_domain", [1, 2, 4, 5, 20])
def test_every_image_comes_once_a_pass_on_its_domains_own_clock(sources: list[Subset], per_domain: int) -> None:
    batches = list(islice(training(sources, per_domain, generator()), 60))
    for number, source in enumerate(sources):
        count = len(source.indices)
        order = of_domain(batches, number)
        assert len(order) == 60 * per_domain
        for start in range(0, len(order) - count + 1, count):
            assert sorted(order[start : start + count]) == list(range(count))


def test_every_pass_has_a_new_order(sources: list[Subset]) -> None:
    order = of_domain(list(islice(training(sources, 4, generator()), 30)), 0)
    passes = [tuple(order[start : start + 12]) for start in range(0, 120, 12)]
    assert len(set(passes)) == len(passes)
    assert tuple(range(12)) not in passes


def test_a_small_domain_comes_round_more_often(sources: list[Subset]) -> None:
    batches = list(islice(training(sources, 6, generator()), 14))
    assert set(Counter(of_domain(batches, 0)).values()) == {7}
    assert set(Counter(of_domain(batches, 1)).values()) == {12}
    assert set(Counter(of_domain(batches, 2)).values()) == {28}


def test_only_the_images_of_the_subset_come(numbered: Numbered) -> None:
    subset = Subset(numbered("photo", 10), np.array([7, 2, 9]))
    order = of_domain(list(islice(training([subset], 2, generator()), 9)), 0)
    assert Counter(order) == {7: 6, 2: 6, 9: 6}


def test_a_single_image_is_a_domain_too(numbered: Numbered) -> None:
    batch = next(training([whole(numbered("photo", 1)), whole(numbered("paint", 9))], 3, generator()))
    assert batch.labels[:3].tolist() == [0, 0, 0]
    assert batch.domains.tolist() == [0, 0, 0, 1, 1, 1]


def test_the_same_generator_gives_the_same_batches(sources: list[Subset]) -> None:
    torch.manual_seed(1)
    one = list(islice(training(sources, 4, generator(3)), 12))
    torch.manual_seed(2)
    again = list(islice(training(sources, 4, generator(3)), 12))
    other = list(islice(training(sources, 4, generator(4)), 12))
    assert all(
        torch.equal(a, b) for x, y in zip(one, again, strict=True) for a, b in zip(x[:3], y[:3], strict=True)
    )
    assert of_domain(one, 0) != of_domain(other, 0)


def test_batches_are_endless_and_iterate_over_themselves(sources: list[Subset]) -> None:
    batches = training(sources, 4, generator())
    assert iter(batches) is batches
    assert len(list(islice(batches, 200))) == 200


def test_a_domain_without_training_images_is_refused(numbered: Numbered) -> None:
    empty = Subset(numbered("cartoon", 3), np.array([], dtype=np.int64))
    message = "the training part of domain cartoon must be at least one image, found 0"
    with pytest.raises(InputError, match=message):
        training([whole(numbered("photo", 3)), empty], 2, generator())


def test_a_batch_moves_as_a_whole(sources: list[Subset]) -> None:
    moved = next(training(sources, 2, generator())).to(torch.device("meta"))
    assert isinstance(moved, Batch)
    assert moved.draws is not None
    assert {part.device.type for part in (*moved[:3], moved.draws.uniform)} == {"meta"}


# evaluation


@pytest.mark.parametrize("size", [1, 3, 6, 100])
def test_evaluation_goes_through_every_image_once_in_order(numbered: Numbered, size: int) -> None:
    subset = Subset(numbered("photo", 10), np.array([7, 2, 9, 0, 3, 5]))
    batches = list(evaluation_batches(subset, size))
    assert [len(labels) for _, labels in batches] == [len(part) for part in torch.zeros(6).split(size)]
    assert torch.cat([labels for _, labels in batches]).tolist() == [7, 2, 9, 0, 3, 5]
    assert torch.cat([images[:, 0, 0, 0] for images, _ in batches]).tolist() == [7, 2, 9, 0, 3, 5]


def test_nothing_to_evaluate_is_no_batch(numbered: Numbered) -> None:
    assert list(evaluation_batches(Subset(numbered("photo", 3), np.array([], dtype=np.int64)), 4)) == []


def test_rows_columns_and_channels_stay_where_they_are(numbered: Numbered) -> None:
    domain = numbered("photo", 3)
    domain.images[:] = np.arange(domain.images.size, dtype=np.uint8).reshape(domain.images.shape)
    images, labels = load_images(whole(domain), np.array([2, 0]))
    assert labels.tolist() == [2, 0]
    for channel in range(3):
        assert np.array_equal(images[0, channel].numpy(), domain.images[2, :, :, channel])
    images[:] = 0  # a copy: the store is not written to
    assert domain.images[2].any()
