"""Tables of text: columns stay columns whatever a cell holds."""

import pytest

from parse_dg.evaluation.text_table import TextTable


def test_markdown_has_the_notes_below() -> None:
    table = TextTable("title", ("a", "b", "x"), (("1", "2", "3"),), ("One.", "Two."), names=2)
    lines = ["**title**", "", "| a | b | x |", "|---|---|---:|", "| 1 | 2 | 3 |", "", "One.", "", "Two."]
    assert table.markdown().splitlines() == lines


def test_latex_has_the_notes_in_the_caption() -> None:
    lines = TextTable("title", ("a", "b", "x"), (), ("50% of it.", "Two."), names=2).latex().splitlines()
    assert lines[2:4] == [r"\caption{title. 50\% of it. Two.}", r"\begin{tabular}{llc}"]


def test_markdown_keeps_its_columns_whatever_a_name_holds() -> None:
    table = TextTable("t", ("algorithm", "x"), (("a|b", "1"),), ())
    assert table.markdown().splitlines()[-1] == r"| a\|b | 1 |"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a_b", r"a\_b"),
        ("{x}", r"\{x\}"),
        ("a\\b", r"a\textbackslash{}b"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
    ],
)
def test_latex_writes_out_what_it_would_read_as_a_command(name: str, written: str) -> None:
    assert f"{written} & 1" in TextTable("t", ("algorithm", "x"), ((name, "1"),), ()).latex()
