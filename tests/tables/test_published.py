"""The figures of the papers: that the file is whole, and that what it must say of them is there."""

import pytest

from parse_dg.data.public.catalogue import DATA_SETS, SUITE_DATA_SETS
from parse_dg.tables.published import AVERAGE, ERRORS, SUITE, PublishedRow, find_domain, published
from parse_dg.tables.selection import SELECTIONS


def row(source: str, data_set: str, method: str) -> PublishedRow:
    (found,) = [
        row for row in published().rows if (row.source.name, row.data_set, row.method) == (source, data_set, method)
    ]
    return found


def printed(source: str, data_set: str, method: str) -> list[str]:
    return [str(cell) for cell in row(source, data_set, method).cells.values()]


def test_every_row_says_where_it_was_read_and_under_which_rules() -> None:
    rows = published().rows
    assert len(rows) == 68
    for each in rows:
        assert published().sources[each.source.name] is each.source
        assert published().sources[each.origin.name] is each.origin
        assert each.source.cite
        assert each.table
        assert each.protocol
        assert each.error in ERRORS
        assert each.selection is None or each.selection in SELECTIONS
        assert each.trials is None or each.trials > 0
        assert each.error != "none" or all(cell.error is None for cell in each.cells.values())
        columns = SUITE_DATA_SETS if each.data_set == SUITE else DATA_SETS[each.data_set].domains
        assert set(each.cells) == {*columns, AVERAGE}
    assert len({(each.source.name, each.method, each.data_set) for each in rows}) == len(rows)


def test_averages_are_those_of_the_values() -> None:
    """Worked out again: of values that are rounded to a digit the mean is known within one."""
    for each in published().rows:
        *values, average = [float(cell.value) for cell in each.cells.values()]
        assert list(each.cells)[-1] == AVERAGE
        assert abs(sum(values) / len(values) - average) < 0.1001, each


def test_an_average_over_domains_is_the_same_wherever_domainbed_prints_it() -> None:
    """The paper's rows that are said to come from DomainBed are there digit for digit; one is not, and is noted."""
    differing = []
    for each in published().rows:
        if (each.source.name, each.origin.name, each.data_set) == ("paper", "domainbed", SUITE):
            for name in DATA_SETS:
                if name in each.cells:
                    theirs = row("domainbed", name, each.method).cells[AVERAGE]
                    if theirs.value != each.cells[name].value:
                        differing.append((each.method, name, str(theirs.value) in " ".join(each.notes(name))))
    assert differing == [("CORAL", "terraincognita", True)]


def test_the_paper_as_printed() -> None:
    assert printed("paper", "cub-dg", "PARSE") == [
        "75.7 ± 0.4",
        "69.1 ± 0.6",
        "68.2 ± 0.7",
        "49.3 ± 0.9",
        "65.6 ± 0.4",
    ]
    assert row("paper", "cub-dg", "PARSE").error == "standard deviation"
    assert row("paper", "cub-dg", "PARSE").trials == 3
    assert printed("paper", SUITE, "PARSE") == ["86.7", "76.9", "70.5", "54.8", "44.4", "66.7"]
    assert row("paper", SUITE, "PARSE").trials == 1
    assert printed("paper", "cub-dg", "No Relations")[-1] == "62.9"


def test_the_row_that_is_named_for_another_method_says_so() -> None:
    assert printed("paper", SUITE, "MixUp") == printed("swad", SUITE, "MixStyle")
    assert "digit for digit the row of MixStyle" in row("paper", SUITE, "MixUp").note
    true = [str(row("domainbed", name, "Mixup").cells[AVERAGE].value) for name in list(DATA_SETS)[:5]]
    assert true == printed("swad", SUITE, "Mixup")[:-1] == ["84.6", "77.4", "68.1", "47.9", "39.2"]
    assert f"{' '.join(true)}, average 63.4" in row("paper", SUITE, "MixUp").note


def test_caveats_are_carried() -> None:
    for data_set in ("cub-dg", SUITE):
        assert "AugMix weights" in row("paper", data_set, "ERM++").note
    for method in ("ERM", "MixStyle"):
        assert "448 pixels; its own split (gvrt-split)" in row("gvrt", "cub-dg", method).protocol
        assert "not in the paper's table" in row("gvrt", "cub-dg", method).note
    assert row("paper", "cub-dg", "CORAL").notes(AVERAGE) == ("from gvrt",)
    assert (
        row("paper", "cub-dg", "PARSE").notes(AVERAGE)[0].startswith("mean and standard deviation of three seeds")
    )
    assert all("24,330" in row("domainbed", "terraincognita", method).note for method in ("ERM", "SagNet"))


def test_sources_can_be_chosen() -> None:
    of = published().of
    assert of("all") == published()
    assert {each.source.name for each in of("domainbed, paper").rows} == {"paper", "domainbed", "swad"}
    assert {(each.source.name, each.method) for each in of("erm++").rows} == {("paper", "ERM++")}
    assert {each.data_set for each in of("gvrt").rows} == {"cub-dg", SUITE}


@pytest.mark.parametrize(
    ("data_set", "given", "name"),
    [
        ("pacs", "Art Painting", "art_painting"),
        ("pacs", "A", "art_painting"),
        ("vlcs", "S", "SUN09"),
        ("terraincognita", "L38", "location_38"),
        ("domainnet", "quick", "quickdraw"),
        ("cub-dg", "P", None),
    ],
)
def test_names_of_domains(data_set: str, given: str, name: str | None) -> None:
    assert find_domain(data_set, given) == name
