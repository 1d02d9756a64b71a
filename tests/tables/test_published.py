"""The figures of the papers: that the file is whole, and that what it must say of them is there."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.errors import InputError
from parse_dg.tables.published import (
    AVERAGE,
    ERRORS,
    FILE,
    SUITE,
    PublishedRow,
    find_domain,
    parse_published,
    published,
)
from parse_dg.tables.selection import SELECTIONS

Tables = dict[str, Any]


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
    with pytest.raises(
        InputError, match="unknown source of published figures 'papers': valid are all, paper, domain"
    ):
        of("papers")


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


@pytest.fixture
def content() -> Tables:
    """The first row of the first table."""
    content: Tables = json.loads(FILE.read_text())
    content["tables"] = [copy.deepcopy(content["tables"][0])]
    content["tables"][0]["rows"] = content["tables"][0]["rows"][:1]
    return content


def in_table(field: str, value: object) -> Callable[[Tables], None]:
    return lambda content: content["tables"][0].update({field: value})


def in_row(field: str, value: object) -> Callable[[Tables], None]:
    return lambda content: content["tables"][0]["rows"][0].update({field: value})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (in_table("source", "nobody"), "unknown source of nobody, table 1"),
        (lambda content: content["sources"]["paper"].update(cite=" "), "must have a source"),
        (in_table("error", "variance"), "unknown kind of error"),
        (
            in_table("columns", ["Photo", "Cartoon", "Art", "average"]),
            "must have the columns Photo, Cartoon, Art, P",
        ),
        (in_row("values", "67.5 57.0 42.8 49.5"), "must have 5 values such as 84.7 or"),
        (in_row("values", "67.5 57.0 42.8 31.6 49.5"), "printed as 49.5, its values give 49.72"),
        (lambda content: content["tables"][0]["rows"].append(content["tables"][0]["rows"][0]), "is there twice"),
        (lambda content: content["tables"][0].pop("error"), "incomplete: KeyError 'error'"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(damage: Callable[[Tables], None], said: str, content: Tables) -> None:
    parse_published(content)
    damage(content)
    with pytest.raises(InputError) as error:
        parse_published(content)
    assert said in str(error.value)


def test_an_average_that_differs_is_taken_with_a_note(content: Tables) -> None:
    in_row("values", "67.5 57.0 42.8 31.6 49.5")(content)
    in_row("note_on", {"average": "misprinted"})(content)
    (only,) = parse_published(content).rows
    assert only.notes("average") == ("from gvrt", "misprinted")
    assert only.notes("Photo") == ("from gvrt",)
