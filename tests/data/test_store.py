"""The store: every file decoded once, whatever interrupts, and never a traceback for what is found on the disk."""

import errno
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from parse_dg import files as module_files
from parse_dg.data import domain as domain_module, store as module
from parse_dg.data.framing import Framing
from parse_dg.data.images import ImageError, decode, read_file
from parse_dg.data.intake.library import open_manifest
from parse_dg.data.intake.own import list_own
from parse_dg.data.manifest import Manifest, index
from parse_dg.data.store import RESERVE, NoRoomError, image_files, open_store, store_bytes, store_folder
from tests.data.intake.damage import encoded, picture
from tests.data.test_parallel import time_limit

SIZE = 5
COUNTS = {"art": {"cat": 3, "dog": 2}, "photo": {"cat": 4, "dog": 2}, "sketch": {"cat": 1, "dog": 3}}
"""Images of every domain and class: 5, 6 and 4."""


def make_images(root: Path, counts: Mapping[str, Mapping[str, int]] = COUNTS) -> Path:
    """A folder domain/class/image of small images, all different."""
    for place, (style, classes) in enumerate(counts.items()):
        for label, (kind, count) in enumerate(classes.items()):
            (root / style / kind).mkdir(parents=True)
            for number in range(count):
                shown = picture(100 * place + 10 * label + number, (9 + number, 7))
                (root / style / kind / f"{number}.png").write_bytes(encoded(shown, "PNG"))
    return root


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PARSE_DG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no test pulls the plug
    with time_limit(30):
        yield tmp_path / "cache"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Of files that no test changes."""
    return open_manifest(str(make_images(tmp_path_factory.mktemp("store") / "images")))


@pytest.fixture
def own_manifest(tmp_path: Path) -> Manifest:
    """Of files that a test may change."""
    return open_manifest(str(make_images(tmp_path / "images")))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was decoded, by its path below the root."""
    counter: Counter[str] = Counter()

    def count(path: Path) -> bytes:
        counter["/".join(path.parts[-3:])] += 1
        return read_file(path)

    monkeypatch.setattr(domain_module, "read_file", count)
    return counter


def expected(manifest: Manifest, size: int = SIZE) -> list[np.ndarray]:
    """Every file decoded by itself."""
    return [
        np.stack([decode(files.root / path, Framing(size=size), files.keep_truncated) for path in files.paths])
        for files in image_files(manifest)
    ]


def holds(found: list[np.ndarray], manifest: Manifest, size: int = SIZE) -> bool:
    pairs = zip(found, expected(manifest, size), strict=True)
    return all(one.dtype == np.uint8 and np.array_equal(one, other) for one, other in pairs)


def names(folder: Path) -> set[str]:
    """Of all but the digests, of which every array has one."""
    return {path.name for path in folder.iterdir() if path.suffix != ".sha256"}


WHOLE = {"0.npy", "1.npy", "2.npy", "index.json"}


@pytest.mark.parametrize("size", [1, 5, 16])
def test_it_holds_every_file_decoded(manifest: Manifest, size: int) -> None:
    assert holds(open_store(manifest, size), manifest, size)


def test_every_file_is_decoded_once_and_then_never_again(manifest: Manifest, decoded: Counter[str]) -> None:
    open_store(manifest, SIZE)
    assert decoded == {image.path: 1 for image in manifest.images}
    before = {path: path.stat().st_mtime_ns for path in store_folder(manifest, SIZE).iterdir()}
    assert holds(open_store(manifest, SIZE, lambda *state: pytest.fail(f"decoded again: {state}")), manifest)
    assert decoded.total() == 15
    assert before == {path: path.stat().st_mtime_ns for path in store_folder(manifest, SIZE).iterdir()}


def test_images_that_changed_make_a_store_of_their_own(own_manifest: Manifest) -> None:
    before = open_store(own_manifest, SIZE)
    kept = [array.copy() for array in before]
    path = own_manifest.root / "photo" / "dog" / "1.png"
    path.write_bytes(encoded(picture(999, (30, 20)), "PNG"))
    changed = open_manifest(str(own_manifest.root))
    assert store_folder(changed, SIZE) != store_folder(own_manifest, SIZE)
    assert holds(open_store(changed, SIZE), changed)
    assert all(np.array_equal(one, other) for one, other in zip(open_store(own_manifest, SIZE), kept, strict=True))


def test_a_file_that_has_changed_since_it_was_indexed_is_refused(own_manifest: Manifest) -> None:
    path = own_manifest.root / "art" / "cat" / "0.png"
    path.write_bytes((own_manifest.root / "art" / "cat" / "1.png").read_bytes())
    with pytest.raises(ImageError, match=r"art/cat/0.png: it is not what it was when the data set was indexed"):
        open_store(own_manifest, SIZE)


def test_files_that_are_cut_short_are_decoded_as_the_manifest_says(tmp_path: Path) -> None:
    folder = make_images(tmp_path / "images")
    path = folder / "art" / "cat" / "0.png"
    path.write_bytes(path.read_bytes()[:150])
    kept = index("mine", list_own(folder), keep_truncated=True)
    assert len(kept.images) == len(index("mine", list_own(folder)).images) + 1
    assert holds(open_store(kept, SIZE), kept)
    with pytest.raises(ImageError, match=r"art/cat/0.png: it is cut short"):
        open_store(replace(kept, keep_truncated=False), SIZE + 1)


@pytest.mark.parametrize(("when", "finished"), [(1, 0), (8, 1), (15, 2)])
def test_an_interruption_leaves_whole_domains_and_nothing_else(
    manifest: Manifest, decoded: Counter[str], when: int, finished: int
) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if done == when:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_store(manifest, SIZE, stop)
    assert names(store_folder(manifest, SIZE)) == {f"{number}.npy" for number in range(finished)}

    decoded.clear()
    seen: list[int] = []
    assert holds(open_store(manifest, SIZE, lambda what, done, total: seen.append(done)), manifest)
    assert decoded == {image.path: 1 for image in manifest.images if image.domain >= finished}
    assert seen == list(range(1 + (0, 5, 11)[finished], 16))
    assert names(store_folder(manifest, SIZE)) == WHOLE


def test_a_file_that_vanished_is_named_and_the_rest_is_kept(own_manifest: Manifest, decoded: Counter[str]) -> None:
    path = own_manifest.root / "photo" / "cat" / "2.png"
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(ImageError, match=r"cannot read .*photo/cat/2.png: no such file"):
        open_store(own_manifest, SIZE)
    assert names(store_folder(own_manifest, SIZE)) == {"0.npy"}
    path.write_bytes(data)
    decoded.clear()
    assert holds(open_store(own_manifest, SIZE), own_manifest)
    assert not any(name.startswith("art/") for name in decoded)


def build_slowly(manifest: Manifest, notes: Path, processes: int, stuck_at: str) -> None:
    """In a process of its own, once all are ready: writes down each file it decodes, and stays at one of them."""

    def slow(path: Path) -> bytes:
        with (notes / "decoded").open("a") as file:
            file.write(f"{path.relative_to(manifest.root)}\n")
        time.sleep(600 if path.match(stuck_at) else 0.02)
        return read_file(path)

    domain_module.read_file = slow
    (notes / f"ready{os.getpid()}").touch()
    while len(list(notes.glob("ready*"))) < processes:
        time.sleep(0.001)
    if not holds(open_store(manifest, SIZE), manifest):
        raise SystemExit(3)


@pytest.fixture
def spawn() -> Iterator[Callable[..., multiprocessing.process.BaseProcess]]:
    """Starts processes, and ends those that are still there."""
    context, started = multiprocessing.get_context("spawn"), []

    def start(*arguments: Any) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=build_slowly, args=arguments, daemon=True)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()
        process.close()


@pytest.mark.slow
def test_two_processes_decode_every_file_once(manifest: Manifest, tmp_path: Path, spawn: Any) -> None:
    processes = [spawn(manifest, tmp_path, 2, "nothing") for _ in range(2)]
    for process in processes:
        process.join(20)
    assert [process.exitcode for process in processes] == [0, 0]
    decoded = (tmp_path / "decoded").read_text().splitlines()
    assert sorted(decoded) == sorted(image.path for image in manifest.images)
    assert holds(open_store(manifest, SIZE, pytest.fail), manifest)


@pytest.mark.slow
def test_after_a_process_was_killed_the_next_goes_on(
    manifest: Manifest, tmp_path: Path, spawn: Any, decoded: Counter[str]
) -> None:
    marker = tmp_path / "decoded"
    process = spawn(manifest, tmp_path, 1, "photo/cat/3.png")
    while not (marker.exists() and "photo/cat/3.png" in marker.read_text()):
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert names(store_folder(manifest, SIZE)) == {"0.npy", "1.npy.writing"}
    assert holds(open_store(manifest, SIZE), manifest)
    assert decoded == {image.path: 1 for image in manifest.images if image.domain > 0}
    assert names(store_folder(manifest, SIZE)) == WHOLE


def test_it_is_built_only_if_it_fits(
    manifest: Manifest, decoded: Counter[str], monkeypatch: pytest.MonkeyPatch, cache_of_its_own: Path
) -> None:
    needed = store_bytes(15, SIZE)
    assert needed == 15 * 5 * 5 * 3
    monkeypatch.setattr(module, "free_bytes", lambda folder: RESERVE + needed - 1)
    with pytest.raises(NoRoomError) as caught:
        open_store(manifest, SIZE)
    assert str(caught.value) == (
        f"decoded images would take 0.00 GB and {cache_of_its_own} has 1.07 GB free (1.07 GB of it kept back)"
    )
    assert not decoded
    assert names(store_folder(manifest, SIZE)) == set()
    monkeypatch.setattr(module, "free_bytes", lambda folder: RESERVE + needed)
    assert holds(open_store(manifest, SIZE), manifest)


def fail_writing(monkeypatch: pytest.MonkeyPatch, name: str, number: int, after: int = 0) -> None:
    """The disk takes `after` pieces of the file `name`, then answers with an error."""
    really_open = Path.open

    def open_file(path: Path, *arguments: Any, **options: Any) -> IO[Any]:
        file: Any = really_open(path, *arguments, **options)
        if path.name == name:
            really_write, written = file.write, iter(range(after))

            def write(data: Any) -> int:
                if next(written, None) is None:
                    raise OSError(number, os.strerror(number))
                count: int = really_write(data)
                return count

            file.write = write
        return file  # type: ignore[no-any-return]

    monkeypatch.setattr(Path, "open", open_file)


@pytest.mark.parametrize(
    ("number", "name", "after"), [(errno.ENOSPC, "0.npy.writing", 0), (errno.EDQUOT, "1.npy.writing", 4)]
)
def test_a_disk_that_fills_up_is_no_room(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, cache_of_its_own: Path, number: int, name: str, after: int
) -> None:
    with monkeypatch.context() as patch:
        fail_writing(patch, name, number, after)
        with pytest.raises(NoRoomError) as caught:
            open_store(manifest, SIZE)
    assert str(caught.value) == (
        f"decoded images would take 0.00 GB and {cache_of_its_own} has no room left ({os.strerror(number)})"
    )
    assert names(store_folder(manifest, SIZE)) == ({"0.npy"} if name[0] == "1" else set())
    assert holds(open_store(manifest, SIZE), manifest)


def npy(array: np.ndarray, path: Path) -> bytes:
    np.save(path, array)
    return path.read_bytes()


DAMAGE: dict[str, Callable[[bytes, Path], bytes]] = {
    "cut": lambda whole, path: whole[:-1],
    "garbage": lambda whole, path: b"\x93NUMPY" + random.Random(0).randbytes(3000),
    "a zip": lambda whole, path: b"PK\x05\x06" + bytes(18),
    "long header": lambda whole, path: whole[:8] + b"\xff\xff" + whole[10:] + bytes(70000),
    "other size": lambda whole, path: npy(np.zeros((6, 4, 5, 3), np.uint8), path),
    "floats": lambda whole, path: npy(np.zeros((6, 5, 5, 3), np.float32), path),
    "objects": lambda whole, path: npy(np.array([{}], dtype=object), path),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_domain_is_decoded_again_and_that_is_said_once(
    manifest: Manifest, case: str, decoded: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    open_store(manifest, SIZE)
    path = store_folder(manifest, SIZE) / "1.npy"
    damaged = DAMAGE[case](whole := path.read_bytes(), path)
    assert damaged != whole
    path.write_bytes(damaged)
    decoded.clear()
    for _ in range(2):
        assert holds(open_store(manifest, SIZE), manifest)
    assert {name.partition("/")[0] for name in decoded} == {"photo"}
    assert set(decoded.values()) == {1}
    assert caplog.messages == [f"{path} is damaged: its images are decoded again"]


def test_a_flipped_bit_is_found_within_a_day_and_files_of_earlier_versions_are_read(manifest: Manifest) -> None:
    open_store(manifest, SIZE)
    path = store_folder(manifest, SIZE) / "0.npy"
    mark, whole = path.with_suffix(".sha256"), path.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    long_ago = time.time() - 2 * module_files.CHECKED_FOR
    for file in (path, mark):  # as a disk that forgets: the time of the file is what it was
        file.write_bytes(flipped if file == path else file.read_bytes())
        os.utime(file, (long_ago, long_ago))
    assert holds(open_store(manifest, SIZE), manifest)
    assert mark.stat().st_mtime > long_ago
    mark.unlink()
    path.write_bytes(flipped)
    assert not holds(open_store(manifest, SIZE), manifest)
    path.unlink()
    assert holds(open_store(manifest, SIZE), manifest)
