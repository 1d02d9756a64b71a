"""A user's own list: every dialect gives the same listing, every mistake is named with its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from parse_dg.data.intake.lists import read_list
from parse_dg.data.listing import ListedImage, Listing
from parse_dg.errors import InputError
from tests.parts import refusal

CSV = "path,domain,class\nb/1.png,sketch,dog\na/2.png,photo,dog\na/1.png,photo,dog\na/3.png,photo,cat\n"


@pytest.fixture
def listed(tmp_path: Path) -> Any:
    """listed(text, name): the listing of a list with that text."""

    def read(text: str | bytes, name: str = "list.csv") -> Listing:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_list(path)

    return read


@pytest.fixture
def refused(listed: Any, tmp_path: Path) -> Any:
    """refused(text, name, what): it is, naming the file and what is wrong, on one line."""

    def check(text: str | bytes, name: str, what: str) -> None:
        message = refusal(listed, text, name)
        assert str(tmp_path / name) in message
        assert what in message
        assert "\n" not in message
        assert len(message) < len(str(tmp_path)) + 250

    return check


def test_domains_and_classes_are_sorted_and_images_keep_their_order(listed: Any, tmp_path: Path) -> None:
    listing = listed(CSV)
    assert (listing.root, listing.layout) == (tmp_path, "a list (csv)")
    assert (listing.domains, listing.classes) == (("photo", "sketch"), ("cat", "dog"))
    expected = (("a/3.png", 0, 0), ("a/2.png", 0, 1), ("a/1.png", 0, 1), ("b/1.png", 1, 1))
    assert listing.images == tuple(ListedImage(*image, image[0]) for image in expected)


def test_json_and_json_lines_say_the_same(listed: Any) -> None:
    head, *rows = [line.split(",") for line in CSV.splitlines()]
    entries = [dict(zip(head, row, strict=True)) for row in rows]
    for text, name in (
        (json.dumps(entries), "list.json"),
        (json.dumps({"images": entries}), "list.JSON"),
        ("\n".join(map(json.dumps, entries)), "list.jsonl"),
    ):
        assert listed(text, name).images == listed(CSV).images


@pytest.mark.parametrize(
    ("paths", "root", "relative"),
    [
        (["a.png", "b/c.png"], "lists", ["a.png", "b/c.png"]),
        (["./a.png", "b//c.png", "d/../e.png"], "lists", ["a.png", "b/c.png", "e.png"]),
        (["../x/a.png", "../x/y/b.png"], "x", ["a.png", "y/b.png"]),
        (["../x/a.png", "b.png"], ".", ["x/a.png", "lists/b.png"]),
        (["{}/x/a.png", "{}/x/b.png"], "x", ["a.png", "b.png"]),
        (["{}/lists/a.png", "b.png"], "lists", ["a.png", "b.png"]),
    ],
)
def test_paths_are_relative_to_the_list_or_to_the_folder_they_share(
    paths: list[str], root: str, relative: list[str], listed: Any, tmp_path: Path
) -> None:
    rows = "".join(f"{path.format(tmp_path)},photo,dog\n" for path in paths)
    listing = listed(f"path,domain,class\n{rows}", "lists/list.csv")
    assert listing.root == tmp_path / root
    assert [image.path for image in listing.images] == relative


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("\n\n", "line 1: expected the columns path, domain, class, found nothing"),
        ("path,domain,class\n", "lists no images"),
        ("path,label\na,b\n", "line 1: expected the columns path, domain, class, found path, label"),
        ("path,domain,class,path\na,b,c,d\n", "line 1: two columns are named 'path'"),
        (CSV + "x.png,,dog\n", "line 6: 'domain' is empty"),
        (CSV + "x.png,photo\n", "line 6: expected 3 cells, found 2"),
        (CSV + "./a/1.png,photo,dog\n", "line 6: ./a/1.png is listed already in line 4"),
        (CSV + '"x.png,photo,dog\na\nb\n', "line 6: no CSV"),
        (CSV + '"a\nb.png",photo,dog\n', "line 6: 'path' has characters that cannot be shown: 'a\\nb.png'"),
        (CSV + "\0,photo,dog\n", "line 6: a null character"),
        (CSV.encode() + b"\xe9.png,photo,dog\n", "line 6: no UTF-8 text"),
    ],
)
def test_a_mistake_in_csv_is_named_with_its_line(text: str | bytes, what: str, refused: Any) -> None:
    refused(text, "list.csv", what)


ENTRY = {"path": "a.png", "domain": "photo", "class": "dog"}


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (5, "expected an object with path, domain, class, found int"),
        ({"path": "b.png", "domain": "photo"}, "no 'class': an image has path, domain, class"),
        (ENTRY | {"path": 5}, "expected a text as 'path', found int"),
        (ENTRY | {"class": " "}, "'class' is empty"),
        (ENTRY | {"id": 3}, "expected a text as 'id', found int"),
        (ENTRY | {"path": "\ud800"}, "'path' has characters that cannot be shown"),
    ],
)
def test_a_mistake_in_json_is_named_with_its_entry(entry: Any, what: str, refused: Any) -> None:
    refused(json.dumps([ENTRY, entry]), "list.json", f"entry 2: {what}")
    refused(f"{json.dumps(ENTRY)}\n\n{json.dumps(entry)}", "list.jsonl", f"line 3: {what}")


@pytest.mark.parametrize(
    ("text", "name", "what"),
    [
        ('[\n{"path": }]', "list.json", "line 2: no JSON"),
        ("[" * 100_000, "list.json", "nested too deep"),
        ("9" * 5000, "list.json", "too long a number"),
        ("5", "list.json", "expected a list of images"),
        ("[]", "list.json", "lists no images"),
        (json.dumps([ENTRY, ENTRY]), "list.json", "entry 2: a.png is listed already in entry 1"),
        (f"{json.dumps(ENTRY)}\n{{", "list.jsonl", "line 2: no JSON"),
        (f"{json.dumps(ENTRY)}\n" + "[" * 100_000, "list.jsonl", "line 2: no list of images"),
    ],
)
def test_what_is_no_list_of_images_is_refused(text: str, name: str, what: str, refused: Any) -> None:
    refused(text, name, what)


def test_another_kind_of_file_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown kind of list 'list.txt': valid are .csv, .json, .jsonl"):
        read_list(tmp_path / "list.txt")
    assert "missing.csv: no such file" in refusal(read_list, tmp_path / "missing.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "folder.csv: it is a folder" in refusal(read_list, tmp_path / "folder.csv")
