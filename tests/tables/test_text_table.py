"""Tables of text: columns stay columns whatever a cell holds."""

import pytest

from parse_dg.tables.text_table import TextTable, best_cells, csv_table, spreadsheet_csv


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


def table() -> TextTable:
    rows = (("a|b", "1 ± 0"), ("c_d", "2"))
    return TextTable("t", ("algorithm", "x"), rows, ("n",), bold=frozenset({(0, 1), (1, 0)}), commands=("do --it",))


def test_bold_is_marked_in_markdown_and_latex() -> None:
    assert r"| a\|b | **1 ± 0** |" in table().markdown()
    assert "| **c_d** | 2 |" in table().markdown()
    assert r"a|b & \textbf{1 $\pm$ 0} \\" in table().latex()
    assert r"\textbf{c\_d} & 2 \\" in table().latex()


def test_commands_are_a_block_in_markdown_and_comments_in_latex() -> None:
    assert table().markdown().endswith("\n\nn\n\nTo fill what is missing:\n\n```sh\ndo --it\n```")
    assert table().latex().endswith("\\end{table}\n% To fill what is missing:\n% do --it")
    assert "do" not in table().latex().partition(r"\end{table}")[0]


def test_the_best_of_each_column_and_all_that_are_as_good() -> None:
    means = [[0.5, None, 0.70004, 0.1], [0.6, 0.4, 0.69996, None], [0.6, None, 0.6994, None]]
    assert best_cells(means) == {(1, 1), (2, 1), (0, 3), (1, 3)}


def test_latex_calls_methods_as_papers_do_in_the_notes_too() -> None:
    rows = (("no_relations", "1"), ("parse", "2"))
    found = TextTable("t", ("algorithm", "x"), rows, ("Against parse: no_relations -1; parse-dg says so.",)).latex()
    assert "Against PARSE: No Relations -1; parse-dg says so." in found


def test_latex_puts_columns_below_that_a_page_has_no_room_for() -> None:
    header = ("algorithm", *(f"column {n}" for n in range(12)))
    found = TextTable("t", header, (("erm", *map(str, range(12))),), ()).latex()
    assert found.count(r"\begin{tabular}") == 2
    assert r"ERM & 0 & 1 & 2 & 3 & 4 & 5 & 6 & 7 \\" in found
    assert r"ERM & 8 & 9 & 10 & 11 \\" in found


def test_a_spreadsheet_finds_no_formula_and_every_number() -> None:
    rows = [("=1+1", -0.5, "-1.5e-05"), ("@a, b", "+3", "-x"), ("\t=1", "a=1", "")]
    assert spreadsheet_csv(csv_table(("-", "b", "c"), rows)) == csv_table(
        ("'-", "b", "c"), [("'=1+1", -0.5, "-1.5e-05"), ("'@a, b", "+3", "'-x"), ("'\t=1", "a=1", "")]
    )
