"""Benchmarks: named domains over one set of classes."""

import pytest

from parse_dg.data import blueprints
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.blueprints import BlueprintsConfig
from parse_dg.data.blueprints_store import open_blueprints
from parse_dg.data.domain import Benchmark
from parse_dg.errors import InputError
from tests.conftest import Numbered, Tiny


def test_blueprints_opens_by_name(tiny: Tiny) -> None:
    config = tiny().data
    benchmark = open_benchmark(config)
    stored = open_blueprints(config.blueprints)
    assert benchmark.name == "blueprints"
    assert benchmark.classes == blueprints.CLASSES
    assert benchmark.fingerprint == stored.fingerprint
    assert tuple(domain.name for domain in benchmark.domains) == blueprints.DOMAINS
    for domain in benchmark.domains:
        assert domain.images.shape == (8 * config.blueprints.images_per_class, 64, 64, 3)
        assert (domain.images == stored.domains[domain.name].images).all()
        assert (domain.labels == stored.domains[domain.name].labels).all()


def test_the_settings_of_blueprints_reach_the_drawing(tiny: Tiny) -> None:
    config = DataConfig(blueprints=BlueprintsConfig(seed=5, images_per_class=1))
    domain = open_benchmark(config).domain("cartoon")
    assert (domain.images == blueprints.generate_domain("cartoon", config.blueprints).images).all()


def test_making_a_benchmark_reports_its_progress() -> None:
    seen: list[tuple[str, int, int]] = []
    config = DataConfig(blueprints=BlueprintsConfig(seed=11, images_per_class=1))
    open_benchmark(config, lambda *state: seen.append(state))
    assert seen == [("drawing Blueprints", done, 32) for done in range(1, 33)]
    open_benchmark(config, lambda *state: pytest.fail(f"drawn again: {state}"))


def test_a_domain_is_found_by_name(numbered: Numbered) -> None:
    first, second = numbered("photo", 2), numbered("sketch", 3)
    benchmark = Benchmark("pair", ("a", "b", "c"), (first, second), fingerprint="none")
    assert benchmark.domain("sketch") is second
    with pytest.raises(InputError, match="unknown domain of pair 'paint': valid are photo, sketch"):
        benchmark.domain("paint")
