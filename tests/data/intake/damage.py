"""Inputs as users have them: images, manifests and lists, whole, unusual and damaged, the same for the same seed.

A case says what it must come to: used, refused, or either, where the damage is random and may have hit nothing.
"""

import io
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

SIDE = (32, 24)
"""Width and height of the undamaged images."""


class Case(NamedTuple):
    """A file: its name, its bytes, and whether it must be used, must be refused, or may be either."""

    name: str
    data: bytes
    usable: bool | None


def picture(seed: int = 0, size: tuple[int, int] = SIDE) -> Image.Image:
    """A small colour picture: slopes and noise, so that every format has something to compress."""
    width, height = size
    x, y = np.meshgrid(np.linspace(0, 200, width), np.linspace(0, 200, height))
    noise = np.random.default_rng(seed).uniform(0, 55, (height, width, 3))
    return Image.fromarray((np.stack([x, y, 200 - x], axis=-1) + noise).astype(np.uint8))


def grey16(size: tuple[int, int] = SIDE) -> Image.Image:
    """A ramp over all values of 16 bits."""
    width, height = size
    return Image.fromarray(np.linspace(0, 65535, width * height).astype(np.uint16).reshape(height, width))


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The file that Pillow writes."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def exif(orientation: int) -> Image.Exif:
    """EXIF data with nothing but an orientation."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def originals() -> dict[str, bytes]:
    """Whole files of every kind that must be used, by name."""
    rgb = picture()
    palette, alpha, grey = rgb.quantize(32), rgb.copy(), rgb.convert("L")
    alpha.putalpha(grey)
    lab = rgb.convert("LAB")
    lab.info.clear()  # a profile that says when it was made
    frames = [picture(seed) for seed in (1, 2)]
    pgm = b"P5 32 24 1000\n" + np.arange(32 * 24, dtype=">u2").tobytes()
    plain = " ".join(str(value) for value in np.asarray(rgb).flatten())
    files = {
        "plain.jpg": encoded(rgb, "JPEG"),
        "progressive.jpg": encoded(rgb, "JPEG", progressive=True),
        "restarts.jpg": encoded(rgb, "JPEG", restart_marker_blocks=1),
        "grey.jpg": encoded(grey, "JPEG"),
        "cmyk.jpg": encoded(rgb.convert("CMYK"), "JPEG"),
        "plain.png": encoded(rgb, "PNG"),
        "grey.png": encoded(grey, "PNG"),
        "bits.png": encoded(rgb.convert("1"), "PNG"),
        "palette.png": encoded(palette, "PNG"),
        "palette-transparent.png": encoded(palette, "PNG", transparency=3),
        "palette-alphas.png": encoded(palette, "PNG", transparency=bytes(range(32))),
        "alpha.png": encoded(alpha, "PNG"),
        "grey-alpha.png": encoded(alpha.convert("LA"), "PNG"),
        "deep.png": encoded(grey16(), "PNG"),
        "animated.png": encoded(frames[0], "PNG", save_all=True, append_images=frames[1:]),
        "plain.gif": encoded(palette, "GIF"),
        "transparent.gif": encoded(palette, "GIF", transparency=3),
        "animated.gif": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50),
        "plain.webp": encoded(rgb, "WEBP"),
        "lossless.webp": encoded(alpha, "WEBP", lossless=True),
        "animated.webp": encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
        "plain.bmp": encoded(rgb, "BMP"),
        "palette.bmp": encoded(palette, "BMP"),
        "bits.bmp": encoded(rgb.convert("1"), "BMP"),
        "plain.tif": encoded(rgb, "TIFF"),
        "lzw.tif": encoded(rgb, "TIFF", compression="tiff_lzw"),
        "deflate.tif": encoded(rgb, "TIFF", compression="tiff_adobe_deflate"),
        "jpeg.tif": encoded(rgb, "TIFF", compression="jpeg"),
        "bits.tif": encoded(rgb.convert("1"), "TIFF", compression="group4"),
        "deep.tif": encoded(grey16(), "TIFF"),
        "lab.tif": encoded(lab, "TIFF"),
        "cmyk.tif": encoded(rgb.convert("CMYK"), "TIFF"),
        "pages.tif": encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:]),
        "plain.ppm": encoded(rgb, "PPM"),
        "grey.pgm": encoded(grey, "PPM"),
        "bits.pbm": encoded(rgb.convert("1"), "PPM"),
        "deep.pgm": pgm,
        "words.ppm": f"P3 32 24 255\n{plain}\n".encode(),
    }
    for orientation in range(1, 9):
        files[f"turned{orientation}.jpg"] = encoded(rgb, "JPEG", exif=exif(orientation))
    files["turned6.png"] = encoded(rgb, "PNG", exif=exif(6))
    files["turned6.webp"] = encoded(rgb, "WEBP", exif=exif(6))
    files["turned6.tif"] = encoded(rgb, "TIFF", exif=exif(6))
    return files


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bombs(width: int = 10_000, height: int = 10_000) -> dict[str, bytes]:
    """Small files that claim very many pixels, by name."""
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(bytes(100_000), 9)) + chunk(b"IEND", b"")
    screen = struct.pack("<HH", width & 0xFFFF, height & 0xFFFF)
    gif = b"GIF89a" + screen + b"\x80\0\0" + bytes(range(6)) + b",\0\0\0\0" + screen + b"\0\x02\x02\x44\x01\0;"
    bmp = b"BM" + struct.pack("<IHHI", 1078, 0, 0, 54)
    bmp += struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(1024)
    tags = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: 100}
    ifd = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, n) for tag, n in tags.items())
    tif = b"II*\0" + struct.pack("<I", 8) + ifd + bytes(104)
    jpg = bytearray(encoded(picture(), "JPEG"))
    start = jpg.index(b"\xff\xc0") + 5
    jpg[start : start + 4] = struct.pack(">HH", height & 0xFFFF, width & 0xFFFF)
    webp = b"VP8L" + struct.pack("<IBI", 64, 0x2F, (width - 1 & 0x3FFF) | (height - 1 & 0x3FFF) << 14) + bytes(59)
    webp = b"RIFF" + struct.pack("<I", len(webp) + 4) + b"WEBP" + webp
    ppm = f"P6 {width} {height} 255\n".encode() + bytes(1000)
    files = {"png": png, "gif": gif, "bmp": bmp, "tif": tif, "jpg": bytes(jpg), "webp": webp, "ppm": ppm}
    return {f"{width}x{height}.{kind}": data for kind, data in files.items()}


def text_bomb() -> bytes:
    """A PNG whose comment is small in the file and 100 megabytes in memory."""
    comment = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(100_000_000), 9))
    whole = encoded(picture(), "PNG")
    return whole[:33] + comment + whole[33:]


def damaged(data: bytes, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """The file with every kind of damage, at random places."""
    for number in range(8):
        yield f"cut{number}", data[: draw.randrange(1, len(data))]
    for number in range(16):
        changed = bytearray(data)
        end = min(64, len(data)) if number < 8 else len(data)  # half of them in the header
        for _ in range(draw.choice((1, 1, 3, 10))):
            changed[draw.randrange(end)] ^= 1 << draw.randrange(8)
        yield f"flip{number}", bytes(changed)
    for number in range(4):
        start, length = draw.randrange(len(data)), draw.choice((4, 16, 64))
        yield f"zero{number}", data[:start] + bytes(min(length, len(data) - start)) + data[start + length :]
    for number in range(2):
        start = draw.randrange(len(data))
        yield f"lost{number}", data[:start] + data[start + draw.randrange(1, 20) :]
        yield f"more{number}", data[:start] + draw.randbytes(draw.randrange(1, 20)) + data[start:]


NAMES = [
    "spaces in the name.png", "-dash.png", "ä ö ü ß.png", "猫の写真.png", "🐕.png", "e\u0301.png",
    "\u202fnarrow.png", "'quotes' \"double\".png", "semi;colon,comma.png", "percent%20.png", "back\\slash.png",
    "new\nline.png", "tab\t.png", "a" * 251 + ".png", "é" * 125 + ".png", "no_ending", ".png", "UPPER.PNG",
    "two.jpg.png", "#hash&.png", "\udcff\udcfe.png",
]  # fmt: skip
"""Names that are allowed on disk; the last one is no UTF-8."""


def image_cases(seed: int = 0) -> list[Case]:
    """Every image, whole and damaged."""
    draw = random.Random(seed)
    cases = [Case("empty.jpg", b"", False), Case("text_bomb.png", text_bomb(), False)]
    whole = originals()
    endings = sorted({name.rpartition(".")[2] for name in whole})
    for name, data in whole.items():
        stem, _, ending = name.rpartition(".")
        cases.append(Case(name, data, True))
        for other in draw.sample([other for other in endings if other != ending], 2):
            cases.append(Case(f"{stem}-{ending}.{other}", data, True))
        cases.append(Case(f"{stem}-start.{ending}", data[: draw.randrange(1, 8)], False))
        cases += [Case(f"{stem}-{what}.{ending}", bad, None) for what, bad in damaged(data, draw)]
    for size in ((10_000, 10_000), (16_000, 12_000), (16_383, 16_383)):
        cases += [Case(name, data, False) for name, data in bombs(*size).items()]
    tall = bombs(1, 2**30).items()
    cases += [Case(name, data, False) for name, data in tall if name[-3:] in ("bmp", "tif", "ppm")]
    magics = (b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\x99\0\0\0WEBPVP8 ")
    magics += (b"BM", b"II*\0", b"P6 9 9 9 ")
    for number in range(140):
        magic = magics[number % len(magics)]
        cases.append(Case(f"garbage{number}.jpg", magic + draw.randbytes(draw.choice((10, 100, 1000))), None))
    for number in range(60):
        tags = draw.choice((b"MM\0*\0\0\0\x08", b"II*\0\x08\0\0\0")) + draw.randbytes(draw.randrange(200))
        cases.append(Case(f"exif{number}.jpg", encoded(picture(), "JPEG", exif=b"Exif\0\0" + tags), True))
        rotten, plain = chunk(b"eXIf", draw.randbytes(draw.randrange(1, 200))), whole["plain.png"]
        cases.append(Case(f"exif{number}.png", plain[:33] + rotten + plain[33:], True))
    cases += [Case(name, encoded(picture(number), "PNG"), True) for number, name in enumerate(NAMES)]
    return cases


ODD_VALUES: list[Any] = [None, True, -1, 10**9, 1.5, "", "x", "../up.png", "/abs.png", [], {}, [[]], "ü\0", 10**400]


def mutations(data: bytes, draw: random.Random, fields: Callable[[Any], Iterator[Any]]) -> Iterator[bytes]:
    """JSON lines with every value replaced, every line lost, doubled and moved, and damage at random places."""
    lines = data.splitlines()
    for number, line in enumerate(lines):
        for value in fields(json.loads(line)):
            text = value if isinstance(value, bytes) else json.dumps(value).encode()
            yield b"\n".join([*lines[:number], text, *lines[number + 1 :], b""])
        before, after = lines[:number], lines[number:]
        for changed in ([*before, *after[1:]], [*before, line, *after], [*before, b"", *after], [*after, *before]):
            yield b"\n".join([*changed, b""])
    for _ in range(8):
        yield from (changed for _, changed in damaged(data, draw))


def mutated_fields(line: Any) -> Iterator[Any]:
    """A line of a manifest or of a list, with each of its values replaced, lost, or one too many."""
    keys = list(line) if isinstance(line, dict) else list(range(len(line)))
    for key in keys:
        for value in ODD_VALUES:
            changed = line.copy()
            changed[key] = value
            yield changed
        lost = line.copy()
        del lost[key]
        yield lost
    yield line | {"more": 1} if isinstance(line, dict) else [*line, 1]
    yield from ODD_VALUES
    yield from (b"", b"{", b"nonsense", b"\xff\xfe", b"\0", b"[" * 100_000, b"9" * 5000, b"NaN", b'"\\ud800"')


def broken_manifests(manifest: bytes, seed: int = 0) -> list[Case]:
    """A manifest with every kind of damage; whatever can still be read must say what it said before."""
    draw = random.Random(seed)
    texts = [b"", b"\n", b"\n\n", manifest[:-1], manifest + b"\n", manifest + b"x", b"\xef\xbb\xbf" + manifest]
    texts += [manifest.replace(b"\n", b"\r\n"), manifest.decode().encode("utf-16"), manifest * 2]
    texts += mutations(manifest, draw, mutated_fields)
    return [Case(f"{number}.jsonl", text, None) for number, text in enumerate(texts)]


ROWS = [("b/1.png", "b", "cat"), ("a/2.png", "a", "dog"), ("a/1.png", "a", "cat"), ("ä/ü 1.png", "ä", "çat")]
"""What every whole list of `list_cases` holds."""


Text = tuple[str, str | bytes]  # the ending of a list's name, and what it holds


def list_cases(seed: int = 0) -> list[Case]:
    """Lists in every dialect that must be read as ROWS, lists that must be refused, and damaged ones."""
    draw = random.Random(seed)
    head = ("path", "domain", "class")
    entries = [dict(zip(head, row, strict=True)) for row in ROWS]
    comma = "".join(",".join(row) + "\n" for row in (head, *ROWS))
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    wholes = (("csv", comma), ("json", json.dumps(entries)), ("jsonl", lines))
    either = [(ending, bad) for ending, text in wholes for _ in range(3) for _, bad in damaged(text.encode(), draw)]
    kinds: tuple[tuple[bool | None, int, list[Text]], ...] = (
        (True, 0, _good(head, entries, comma, lines)),
        (False, 1000, _bad(head, entries, comma, lines)),
        (None, 2000, [*either]),
    )
    return [
        Case(f"{number}.{ending}", text.encode() if isinstance(text, str) else text, usable)
        for usable, first, texts in kinds
        for number, (ending, text) in enumerate(texts, first)
    ]


def _good(head: tuple[str, ...], entries: list[dict[str, str]], comma: str, lines: str) -> list[Text]:
    dialects = [comma.replace(",", delimiter) for delimiter in (",", ";", "\t")]
    return [
        *(("csv", text.replace("\n", end)) for text in dialects for end in ("\n", "\r\n", "\r", "\n\n", " \n")),
        ("csv", comma.encode("utf-8-sig")),
        ("csv", comma.strip()),
        ("csv", comma.replace("path,domain,class", "Path, DOMAIN ,Class")),
        ("csv", "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in (head, *ROWS))),
        ("csv", "".join(f"{row[2]},x,{row[0]},,{row[1]}\n" for row in (("path", "domain", "class"), *ROWS))),
        ("json", json.dumps(entries)),
        ("json", json.dumps({"images": entries, "more": 1})),
        ("json", json.dumps(entries, indent=2, ensure_ascii=False)),
        ("json", b"\xef\xbb\xbf" + json.dumps(entries).encode()),
        ("json", json.dumps([entry | {"more": [1]} for entry in entries])),
        ("jsonl", lines),
        ("jsonl", lines.replace("\n", "\r\n\r\n")),
        ("jsonl", lines.strip()),
    ]


def _bad(head: tuple[str, ...], entries: list[dict[str, str]], comma: str, lines: str) -> list[Text]:
    first, nothing = ",".join(ROWS[0]), ("", " ", "\n\n", "\0", b"\xff\xfe", "x")
    rows = [
        first,
        f"./{first}",
        f"c/../{first}",
        ",a,cat",
        "x.png,,cat",
        "x.png,a, ",
        "x.png,a",
        "x.png,a,cat,more",
    ]
    rows += ['"x.png,a,cat', '"x"y,a,b', "\0,a,cat", "x" * 200_000 + ",a,cat", '"x\ny",a,cat', '"' + "x\n" * 99_999]
    values: list[Any] = [*ODD_VALUES[:-1], entries[0]]
    for key in head:
        values += [
            entries[0] | {key: value} for value in (None, True, 1, 1.5, "", " ", [], {}, "\0", "\n", "\ud800")
        ]
        values += [{name: value for name, value in entries[0].items() if name != key}]
    return [
        *((ending, text) for ending in ("csv", "json", "jsonl") for text in nothing),
        *(("csv", comma.replace(name, "other")) for name in head),
        *(("csv", f"{comma}{row}\n") for row in rows),
        *(("csv", text) for text in ("path,domain,class", "path,domain,class,path\n1,2,3,4\n")),
        *(("csv", comma.encode(code)) for code in ("utf-16", "latin-1")),
        *(("json", json.dumps(value)) for value in ([], {"images": []}, {"images": {}})),
        *(("json", text) for text in ("[" * 100_000, json.dumps(entries)[:-1], "9" * 5000)),
        *(("jsonl", text) for text in (lines + lines, "[" * 100_000)),
        *(("json", json.dumps([*entries, value])) for value in values),
        *(("jsonl", lines + json.dumps(value)) for value in values),
        *(("json", json.dumps([entry | {"id": value} for entry in entries])) for value in (None, 1, "", [])),
    ]
