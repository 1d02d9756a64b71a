"""One image: every kind of file as upright RGB of 8 bits, or one line that says why not."""

import os
import pickle
import random
import re
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from parse_dg.data import images
from parse_dg.data.framing import Framing
from parse_dg.data.images import FORMATS, MAX_BYTES, ImageError, decode, open_bytes, read_file, read_size
from parse_dg.errors import InputError
from tests.data.intake.damage import bombs, encoded, exif, grey16, originals, picture, text_bomb
from tests.parts import refusal

ORIGINALS = originals()


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """file(bytes, name): where they were written."""

    def write(data: bytes, name: str = "image.jpg") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def pixels(path: Path, keep_truncated: bool = False) -> np.ndarray:
    image = open_bytes(read_file(path), path, keep_truncated)
    assert image.mode == "RGB"
    return np.asarray(image)


def refused(path: Path, reason: str, keep_truncated: bool = False) -> None:
    with pytest.raises(ImageError, match=reason) as caught:
        open_bytes(read_file(path), path, keep_truncated)
    assert caught.value.reason in str(caught.value)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ORIGINALS)
def test_every_kind_of_file_is_used_whatever_its_name(name: str, file: Any) -> None:
    expected = picture() if "animated" not in name and "pages" not in name else picture(1)
    found = pixels(file(ORIGINALS[name], "wrong.jpeg"))
    turned = any(f"turned{number}" in name for number in (5, 6, 7, 8))
    assert found.shape == ((32, 24, 3) if turned else (24, 32, 3))
    if "turned" not in name and "deep" not in name and "bits" not in name:
        wanted = np.asarray(expected.convert("L").convert("RGB") if "grey" in name else expected).astype(int)
        assert np.abs(found - wanted).mean() < 20  # what a lossy format or a small palette leaves


def test_transparency_is_dropped_and_the_colour_beneath_kept(file: Any) -> None:
    assert np.array_equal(pixels(file(ORIGINALS["alpha.png"])), np.asarray(picture()))
    opaque = pixels(file(ORIGINALS["palette.png"]))
    for name in ("palette-transparent.png", "palette-alphas.png"):
        assert np.array_equal(pixels(file(ORIGINALS[name])), opaque)


@pytest.mark.parametrize("name", ["animated.png", "animated.gif", "animated.webp", "pages.tif"])
def test_an_animation_is_its_first_frame(name: str, file: Any) -> None:
    found = pixels(file(ORIGINALS[name])).astype(int)
    near, far = (np.abs(found - np.asarray(picture(seed))).mean() for seed in (1, 2))
    assert near < far


def test_grey_of_16_bits_keeps_its_high_byte(file: Any) -> None:
    expected = np.asarray(grey16()) // 256
    for data in (encoded(grey16(), "PNG"), encoded(grey16(), "TIFF")):
        found = pixels(file(data))
        assert found.min() == 0
        assert found.max() == 255
        assert all(np.array_equal(found[..., channel], expected) for channel in range(3))


SIDES = {1: "top left", 2: "top right", 3: "bottom right", 4: "bottom left"}
SIDES |= {5: "left top", 6: "right top", 7: "right bottom", 8: "left bottom"}
"""Of the image as it is seen, where the first stored row and the first stored column lie (EXIF's own table)."""


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("orientation", SIDES)
def test_every_orientation_is_turned_upright(kind: str, orientation: int, file: Any) -> None:
    upright = np.asarray(Image.new("RGB", (32, 24)).copy()).copy()
    upright[:8, :16], upright[16:, 24:] = (255, 0, 0), (0, 0, 255)
    row, column = SIDES[orientation].split()
    stored = upright.swapaxes(0, 1) if row in ("left", "right") else upright
    stored = stored[::-1] if row in ("bottom", "right") else stored
    stored = stored[:, ::-1] if column in ("bottom", "right") else stored
    options = {"quality": 100, "subsampling": 0} if kind == "JPEG" else {}
    data = encoded(Image.fromarray(np.ascontiguousarray(stored)), kind, exif=exif(orientation), **options)
    assert np.abs(pixels(file(data)).astype(int) - upright).max() <= (12 if kind == "JPEG" else 0)


def test_the_size_is_read_from_the_header(file: Any, tmp_path: Path) -> None:
    data = encoded(picture(size=(40, 24)), "JPEG")
    assert read_size(file(data)) == (40, 24)
    assert read_size(file(data[:-200])) == (40, 24)  # whatever becomes of the pixels
    assert read_size(file(encoded(picture(size=(40, 24)), "PNG", exif=exif(6)))) == (40, 24)  # as it is stored
    for path, reason in ((file(b"no image"), "it is no JPEG"), (tmp_path / "none", "there is no such file")):
        assert re.search(reason, refusal(read_size, path))


def triangle(values: np.ndarray, size: int) -> np.ndarray:
    """The slow reference: along the first axis, a weighted mean over a triangle as wide as the reduction."""
    scale = len(values) / size
    reach = max(scale, 1.0)
    rows = []
    for target in range(size):
        centre = (target + 0.5) * scale
        weights = [max(0.0, 1 - abs(source + 0.5 - centre) / reach) for source in range(len(values))]
        rows.append(sum(w * values[source] for source, w in enumerate(weights)) / sum(weights))
    return np.stack(rows)


@pytest.mark.parametrize("size", [7, 24, 30, 50])
def test_resizing_is_bilinear_and_antialiased(size: int, file: Any) -> None:
    found = decode(file(encoded(picture(), "PNG")), Framing(size=size))
    across = triangle(np.asarray(picture(), dtype=float).swapaxes(0, 1), size).swapaxes(0, 1)
    assert found.shape == (size, size, 3)
    assert np.abs(found - triangle(across, size)).max() <= 1.01  # each pass rounds


@pytest.mark.parametrize(("name", "data"), bombs(8000, 8000).items())
def test_a_bomb_is_refused_before_a_pixel_is_decoded(
    name: str, data: bytes, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_load", lambda *rest: pytest.fail("decoded"))
    refused(file(data, name), "8000 × 8000 pixels, at most 50,000,000")


def test_as_many_pixels_as_are_allowed_are_decoded(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(ORIGINALS["plain.png"])
    monkeypatch.setattr(images, "MAX_PIXELS", 32 * 24)
    assert pixels(path).shape == (24, 32, 3)
    monkeypatch.setattr(images, "MAX_PIXELS", 32 * 24 - 1)
    refused(path, "it claims 32 × 24 pixels, at most 767 are decoded")


def test_a_comment_that_unfolds_to_100_megabytes_is_refused(file: Any) -> None:
    path = file(text_bomb())
    start = time.process_time()
    refused(path, "damaged")
    assert time.process_time() - start < 3  # decoded it would take longer


def test_scans_are_counted_where_they_are(file: Any) -> None:
    """A telephone may append a film to a photograph, and put a smaller one in front; neither is decoded."""
    scan = b"\xff\xda" + bytes(18)
    jpeg = encoded(picture(), "JPEG", progressive=True)
    plain = pixels(file(jpeg))
    tag = b"\xff\xe1" + (2 + 20 * 99).to_bytes(2, "big") + scan * 99
    assert np.array_equal(pixels(file(jpeg[:2] + tag + jpeg[2:] + scan * 99)), plain)
    for many in (jpeg[:-2] + scan * 99, jpeg[:2] + tag + jpeg[2:-2] + scan * 99):
        refused(file(many), "more than 64 scans")


def test_nothing_that_would_start_a_program_is_tried(file: Any) -> None:
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    for data in (eps, b"%PDF-1.4\n", b"<svg/>", b"just text"):
        refused(file(data), "it is no JPEG, PNG, PPM, BMP, TIFF, WEBP or GIF image")
    assert not {"EPS", "WMF", "PDF"} & set(FORMATS)


def test_heic_is_read_where_it_can_be(file: Any) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    saved = BytesIO()
    pillow_heif.from_pillow(picture(size=(64, 48))).save(saved, quality=-1)
    assert pixels(file(saved.getvalue(), "a.heic")).shape == (48, 64, 3)


def test_without_its_package_heic_says_what_to_install(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "formats", lambda: FORMATS)
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(400)
    refused(file(heic, "IMG_1.HEIC"), r"it is a HEIC image: pip install 'parse-dg\[heic\]' to read those")


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path, file: Any) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "dangling.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "link.jpg").symlink_to(file(ORIGINALS["plain.png"], "target.png"))
    refused(tmp_path, "it is a folder")
    refused(tmp_path / "pipe.jpg", "it is not a regular file")
    refused(Path("/dev/zero"), "it is not a regular file")
    refused(tmp_path / "missing.jpg", "no such file")
    refused(tmp_path / "dangling.jpg", "no such file")
    refused(tmp_path / "loop.jpg", "symbolic links")
    refused(tmp_path / ("x" * 300), "file name too long")
    refused(file(b""), "it is empty")
    assert re.search(r"'.*a\\x00b.jpg': no file can have this name", refusal(read_file, tmp_path / "a\0b.jpg"))
    assert pixels(tmp_path / "link.jpg").shape == (24, 32, 3)


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.jpg"
    with path.open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)
    refused(path, "it has 536,870,913 bytes, at most 536,870,912 are read")


@pytest.mark.parametrize("error", [OSError("x"), SyntaxError("x"), ValueError("x\ny"), EOFError(), MemoryError()])
def test_whatever_pillow_raises_becomes_one_line(
    error: Exception, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*rest: Any) -> None:
        raise error

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    refused(file(ORIGINALS["plain.jpg"]), "it .*")


def test_the_error_is_the_users_and_survives_between_processes() -> None:
    error = pickle.loads(pickle.dumps(ImageError(Path("a/b.jpg"), "it is empty")))
    assert isinstance(error, InputError)
    said = (str(error), error.reason, error.path)
    assert said == ("cannot read a/b.jpg: it is empty", "it is empty", Path("a/b.jpg"))


@pytest.mark.parametrize("name", ["new\nline.jpg", "\udcff.jpg"])
def test_a_name_that_cannot_be_shown_is_escaped(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        read_file(tmp_path / name)
    assert ascii(name)[1:-1] in str(caught.value)
    assert str(caught.value).encode().count(b"\n") == 0


@pytest.mark.parametrize(
    "name", ["plain.jpg", "progressive.jpg", "plain.png", "plain.gif", "plain.bmp", "plain.tif", "plain.ppm"]
)
def test_a_truncated_file_is_refused_or_kept_as_pillow_keeps_it(
    name: str, file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, kept = random.Random(0), 0
    for _ in range(40):
        data = ORIGINALS[name][: draw.randrange(len(ORIGINALS[name]) // 4, len(ORIGINALS[name]) - 20)]
        path = file(data)
        refused(path, "cut short|header is damaged")
        with monkeypatch.context() as patch:
            patch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
            try:
                expected = np.asarray(Image.open(BytesIO(data), formats=FORMATS).convert("RGB"))
            except Exception:
                expected = np.zeros((1, 1, 3))
        try:
            found = pixels(path, keep_truncated=True)
        except ImageError:
            assert (expected == expected[0, 0]).all()  # nor can Pillow make anything of it
        else:
            kept += 1
            assert np.array_equal(found, expected)
    assert kept > 5
