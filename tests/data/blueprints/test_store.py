"""The store: drawn once, whole or not there, and never written to by a reader."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from parse_dg.data.blueprints import benchmark as blueprints, store
from parse_dg.data.blueprints.benchmark import DOMAINS, BlueprintsConfig, BlueprintsDomain, generate_domain
from parse_dg.data.blueprints.store import StoredBlueprints, open_blueprints

SMALL = BlueprintsConfig(seed=0, images_per_class=1)

Patch = Callable[[Callable[..., BlueprintsDomain]], None]
drawn_once = cache(generate_domain)


def drawn(name: str, config: BlueprintsConfig, progress: Any = None) -> BlueprintsDomain:
    """What is drawn, and drawn for all tests once."""
    return drawn_once(name, config)


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for each test, not made yet."""
    folder = tmp_path / "deep" / "cache"
    monkeypatch.setenv("PARSE_DG_CACHE", str(folder))
    monkeypatch.setattr(store, "generate_domain", drawn)
    return folder


@pytest.fixture
def draw_with(monkeypatch: pytest.MonkeyPatch) -> Patch:
    """Replace what draws a domain."""
    return lambda function: monkeypatch.setattr(store, "generate_domain", function)


def never(*arguments: Any) -> BlueprintsDomain:
    pytest.fail(f"drawn again: {arguments}")


def assert_same(one: StoredBlueprints, other: StoredBlueprints) -> None:
    assert one.classes == other.classes
    assert one.fingerprint == other.fingerprint
    assert list(one.domains) == list(other.domains)
    for name, part in one.domains.items():
        for kind in ("images", "labels", "centres"):
            assert np.array_equal(getattr(part, kind), getattr(other.domains[name], kind))
        assert part.captions == other.domains[name].captions


def test_what_is_stored_is_what_is_drawn_and_the_fingerprint_is_of_it_all() -> None:
    stored, digest = open_blueprints(SMALL), hashlib.sha256()
    assert stored.classes == blueprints.CLASSES
    assert tuple(stored.domains) == DOMAINS
    for name, part in stored.domains.items():
        expected = drawn(name, SMALL)
        for kind in ("images", "labels", "centres"):
            assert getattr(part, kind).dtype == getattr(expected, kind).dtype
            assert np.array_equal(getattr(part, kind), getattr(expected, kind))
        assert part.captions == expected.captions
        digest.update(part.images.tobytes() + part.labels.tobytes())
    assert stored.fingerprint == digest.hexdigest()


@pytest.mark.parametrize("damage", ["a bit", "a file", "the index"])
def test_what_is_damaged_is_drawn_again(damage: str, own: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = open_blueprints(SMALL)
    (folder,) = own.iterdir()
    path = folder / {"a bit": "photo.images.npy", "a file": "sketch.labels.npy", "the index": "index.json"}[damage]
    whole = path.read_bytes()
    path.unlink()
    if damage != "a file":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert_same(open_blueprints(SMALL), before)
    assert caplog.messages == [f"{folder} is damaged: it is drawn again"]
    assert list(own.iterdir()) == [folder]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("domain", [DOMAINS[0], DOMAINS[-1]])
def test_an_interrupted_build_leaves_nothing(
    interruption: type[BaseException], domain: str, own: Path, draw_with: Patch
) -> None:
    def interrupted(name: str, *rest: Any) -> BlueprintsDomain:
        if name == domain:
            raise interruption("enough")
        return drawn(name, *rest)

    draw_with(interrupted)
    with pytest.raises(interruption, match="enough"):
        open_blueprints(SMALL)
    assert list(own.iterdir()) == []
    draw_with(drawn)
    assert len(open_blueprints(SMALL).domains) == len(DOMAINS)


def test_two_writers_at_once_leave_one_whole_benchmark(own: Path, draw_with: Patch) -> None:
    together = Barrier(2, timeout=20)

    def meeting(name: str, *rest: Any) -> BlueprintsDomain:
        if name == DOMAINS[-1]:
            together.wait()  # neither has finished when the other is here
        return drawn(name, *rest)

    draw_with(meeting)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(open_blueprints, [SMALL, SMALL])
    assert_same(one, other)
    assert len(list(own.iterdir())) == 1
    draw_with(never)
    assert_same(open_blueprints(SMALL), one)


@pytest.mark.parametrize("other", [replace(SMALL, seed=1), replace(SMALL, images_per_class=2)])
def test_other_settings_are_another_benchmark(other: BlueprintsConfig, own: Path) -> None:
    first, second = open_blueprints(SMALL), open_blueprints(other)
    assert len(list(own.iterdir())) == 2
    assert first.fingerprint != second.fingerprint
    assert len(second.domains["photo"].labels) == 8 * other.images_per_class


@pytest.mark.parametrize("module", [store.blueprints, store.drawing])
def test_changed_drawing_code_is_drawn_anew(
    module: Any, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_blueprints(SMALL)
    changed = tmp_path / "changed.py"
    changed.write_bytes(Path(module.__file__).read_bytes() + b"# another line\n")
    monkeypatch.setattr(module, "__file__", str(changed))
    open_blueprints(SMALL)
    assert len(list(own.iterdir())) == 2
