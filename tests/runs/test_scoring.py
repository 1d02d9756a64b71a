"""The parts of a benchmark: each with its name, and written down so that the split can be read back."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parse_dg.data.domain import Benchmark
from parse_dg.data.splits import LeaveOneOut, SplitConfig, leave_one_out
from parse_dg.runs.config import RunConfig
from parse_dg.runs.scoring import describe_split, leakage
from parse_dg.training.protocol import ProtocolConfig
from tests.conftest import Numbered

SIZES = {"art": 13, "cartoon": 20, "photo": 5, "sketch": 41}
LISTS = ("train0", "valid0", "train1", "valid1", "train2", "valid2", "test")


@pytest.fixture
def benchmark(numbered: Numbered) -> Benchmark:
    """Four domains, with lists that do not overlap, and the same pictures in all."""
    domains = []
    for name, count in SIZES.items():
        lists = {listed: np.arange(count)[n::7] for n, listed in enumerate(LISTS)}
        domains.append(replace(numbered(name, count), lists=lists, ids=tuple(map(str, range(count)))))
    return Benchmark("four", ("only",), tuple(domains), fingerprint="f" * 64)


def configured(target: str = "sketch", protocol: ProtocolConfig | None = None, **split: Any) -> RunConfig:
    plain = RunConfig()
    chosen = "leave-one-domain-out" if split.get("validation_domain") else "training-domain"
    protocol = protocol or ProtocolConfig(selection=chosen)  # type: ignore[arg-type]
    data = replace(plain.data, target=target)
    return replace(plain, data=data, split=SplitConfig(**split), protocol=protocol, seed=3)


def divide(benchmark: Benchmark, config: RunConfig) -> LeaveOneOut:
    return leave_one_out(benchmark, config.data.target, config.seed, config.split)


@pytest.mark.parametrize("target", SIZES)
def test_a_split_can_be_read_back(benchmark: Benchmark, target: str) -> None:
    config = configured(target, target_images="in")
    split = divide(benchmark, config)
    found = json.loads(json.dumps(describe_split(config, benchmark, split).to_dict()))
    assert found["benchmark"] == {"name": "four", "fingerprint": "f" * 64}
    assert (found["scheme"], found["trial"]) == ("holdout20", 3)
    assert found["validation"] == {part.domain.name: part.indices.tolist() for part in split.validation}
    assert found["target"] == {target: split.target.indices.tolist()}
    assert split.target_held_out is not None
    assert found["target_held_out"] == {target: split.target_held_out.indices.tolist()}
    for part in split.training:
        rest = set(range(SIZES[part.domain.name])) - set(found["validation"][part.domain.name])
        assert rest == set(part.indices.tolist())
        assert found["training_images"][part.domain.name] == len(rest)
    assert "training" not in found
    assert "validation_domain" not in found


def test_a_domain_that_is_not_trained_on_is_written_down(benchmark: Benchmark) -> None:
    config = configured(validation_domain="photo")
    split = divide(benchmark, config)
    found = describe_split(config, benchmark, split).to_dict()
    assert split.validation_domain is not None
    assert found["validation_domain"] == {"photo": split.validation_domain.indices.tolist()}
    assert list(found["training_images"]) == list(found["validation"]) == ["art", "cartoon"]


def test_of_lists_the_images_that_train_are_written_down_as_well(benchmark: Benchmark) -> None:
    """They are not the rest: other lists are of other domains."""
    config = configured(scheme="gvrt-split")
    split = divide(benchmark, config)
    found = describe_split(config, benchmark, split).to_dict()
    assert found["scheme"] == "gvrt-split"
    assert found["training"] == {part.domain.name: part.indices.tolist() for part in split.training}
    assert found["target"] == {"sketch": list(range(6, 41, 7))}


def test_leakage_is_counted_and_said(benchmark: Benchmark) -> None:
    config = configured("photo")
    found = leakage(divide(benchmark, config))
    assert found.of == 5
    assert 0 < found.images <= 5
    said = f"{found.images} of the 5 images of photo that are scored show a picture that is also trained on"
    assert found.words == f"leakage: {said}"
    none = leakage(divide(benchmark, configured(scheme="gvrt-split")))
    assert (none.images, none.of) == (0, 5)
