"""How things are said."""

import pytest

from parse_dg.wording import first_line, percent, plural, printable, some


@pytest.mark.parametrize("text", ["a b.png", "über", "猫", "'", ""])
def test_what_can_be_shown_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\x7f", "\x85", "\u2028", "\udcff", "\0", "a\u202egpj.exe"])
def test_what_cannot_be_shown_is_escaped(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text) == ascii(text)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("\n one \n"), "one"),
        (ValueError(""), "ValueError"),
        ("Not Found", "Not Found"),
    ],
)
def test_the_first_line_of_an_error(error: object, line: str) -> None:
    assert first_line(error) == line


def test_some_of_many() -> None:
    assert some([]) == ""
    assert some(("cat",)) == "cat"
    assert some(range(5)) == "0, 1, 2, 3, 4"
    assert some(range(6)) == "0, 1, 2, 3, 4 and 1 more"
    assert some(range(2003), 3, "; ") == "0; 1; 2 and 2,000 more"


def test_counts_and_percentages() -> None:
    assert [plural(count, "image") for count in (0, 1, 2000)] == ["0 images", "1 image", "2,000 images"]
    assert [plural(count, "class") for count in (1, 2)] == ["1 class", "2 classes"]
    assert [percent(fraction) for fraction in (0.0, 0.8125, 1.0)] == ["0.0%", "81.2%", "100.0%"]
