"""Views: which rows runs go into, how these are called and in which order, and the figures beside them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parse_dg.cli.show.views import compared, curve, view_tables
from parse_dg.errors import InputError
from parse_dg.model.vocabulary import SWITCHES
from parse_dg.runs.config import RunConfig
from parse_dg.tables.comparison import compare
from parse_dg.tables.published import published
from parse_dg.tables.selection_tables import SelectionTables
from parse_dg.tables.views import ABLATION, METHODS, VIEWS, find_view
from tests.runs.helpers import accuracy_of
from tests.tables.test_records import DOMAINS, configured, scored, write


def ours(algorithm: str = "parse", **settings: Any) -> RunConfig:
    return configured(algorithm, **settings)


def names(view: str, *configs: RunConfig, by: tuple[str, ...] = ()) -> list[str]:
    rows = {find_view(view, by).row(config) for config in configs}
    return [row.name for row in sorted(rows)]


def runs(folder: Path, *configs: RunConfig, **changes: Any) -> Path:
    """A run of each on every target: its accuracy there is 0.1 for the first, 0.2 for the second, ..."""
    for number, config in enumerate(configs, 1):
        for target in DOMAINS:
            mine = configured_for(config, target)
            write(folder / str(number) / target, mine, [scored(mine, target=number / 10)], **changes)
    return folder


def configured_for(config: RunConfig, target: str) -> RunConfig:
    return replace(config, data=replace(config.data, target=target))


def look(folder: Path, view: str = "main", by: tuple[str, ...] = ()) -> SelectionTables:
    return view_tables([folder], view, by, "training-domain", "se").tables


def test_main_has_methods_in_the_order_of_the_paper() -> None:
    configs = [ours(name) for name in ("parse", "no_relations", "erm_plus_plus", "miro", "dann", "erm")]
    configs.append(ours("erm", averaging__kind="swad"))
    expected = ["erm", "dann", "erm_plus_plus", "miro", "erm+swad", "no_relations", "parse"]
    assert names("main", *configs) == expected
    assert names("main", ours("parse", averaging__kind="ema"), ours("parse")) == ["parse", "parse+ema"]
    assert len(set(METHODS)) == len(METHODS)


def test_ablation_has_the_rows_of_the_paper_in_its_order() -> None:
    families = ("all", "binary+quaternary", "binary+ternary", "binary")
    configs = [ours(algorithm__vocabulary__families=name) for name in families]
    printed = [row.method for row in published().rows if VIEWS["ablation"].published(row)]
    assert names("ablation", ours("erm"), *configs, ours("no_relations")) == [*printed, "erm"]
    assert set(ABLATION) == {*SWITCHES, "no_relations"}


def test_what_a_view_tells_apart_is_not_selected_over(tmp_path: Path) -> None:
    configs = [ours(algorithm__primitives__count=count) for count in (8, 16)]
    runs(tmp_path, *configs)
    (one,) = look(tmp_path).text()
    assert [row[0] for row in one.rows] == ["parse"]
    (two,) = look(tmp_path, "k").text()
    assert [row[:2] for row in two.rows] == [("parse, K = 8", "10.0"), ("parse, K = 16", "20.0")]
    (same,) = look(tmp_path, by=("algorithm.primitives.count",)).text()
    assert [row[1:] for row in same.rows] == [row[1:] for row in two.rows]


def test_the_ablation_beside_the_papers_own(tmp_path: Path) -> None:
    domains = ("Photo", "Cartoon", "Art", "Paint")
    config = ours(data__target="Photo", algorithm__vocabulary__families="binary")
    check = replace(scored(config), validation=dict.fromkeys(domains[1:], accuracy_of(0.5)))
    write(
        tmp_path / "run", config, [check], benchmark={"name": "cub-dg", "fingerprint": "f"}, domains=list(domains)
    )
    (table,) = compare(look(tmp_path, "ablation"), compared("ablation", published().of("paper")))
    assert table.rows[0][:3] == ("PARSE (binary)", "ours", "50.0")
    assert ("PARSE (binary)", "paper", "76.2") in table.rows  # of the one target there is
    assert len(table.rows) == 6


def test_main_has_the_columns_of_both_tables_of_the_paper(tmp_path: Path) -> None:
    """Table 1 (a): CUB-DG by target; (b): the five data sets of DomainBed and their mean, without CUB-DG."""
    for name in ("vlcs", "domainnet", "cub-dg", "pacs", "terraincognita", "officehome"):
        runs(tmp_path / name, ours("erm"), ours(), benchmark={"name": name, "fingerprint": name})
    *single, averages = look(tmp_path).text()
    order = ["pacs", "vlcs", "officehome", "terraincognita", "domainnet"]
    assert [table.title for table in single] == [*order, "cub-dg"]
    assert averages.header == ("algorithm", *order, "Avg")
    assert [row[-1] for row in averages.rows] == ["10.0", "20.0"]
    assert averages.bold == {(1, column) for column in range(1, 7)}


def test_k_has_the_targets_that_were_tried(tmp_path: Path) -> None:
    """The paper's figure is of one target: the others are not missing there."""
    for count, accuracy in ((4, 0.25), (8, 0.5)):
        config = ours(algorithm__primitives__count=count)
        write(tmp_path / str(count), config, [scored(config, target=accuracy)])
    tables = look(tmp_path, "k")
    (text,) = tables.text()
    assert text.header == ("algorithm", "sketch")
    assert text.rows == (("parse, K = 4", "25.0"), ("parse, K = 8", "50.0"))
    assert text.bold == {(1, 1)}
    assert "no run has photo, cartoon, paint as its target, so that there is no average" in text.notes[0]
    assert text.commands == ()
    assert len(tables.csv().splitlines()) == 3
    (beside,) = compare(tables, compared("k", published()))
    assert beside.header == ("algorithm", "source", "sketch")
    assert "mean over targets" not in drawn(tmp_path)


def drawn(folder: Path) -> str:
    curve(view_tables([folder], "k", (), "training-domain", "se"), folder / "k.svg")
    return (folder / "k.svg").read_text()


def test_the_curve_has_a_line_a_target(tmp_path: Path) -> None:
    runs(tmp_path / "runs", *(ours(algorithm__primitives__count=count) for count in (4, 8)), ours("no_relations"))
    text = drawn(tmp_path)
    for words in (*DOMAINS, "mean over targets", "parse on blueprints, 1 trial", ">4<", ">8<"):
        assert words in text, words
    assert "the paper" not in text
    assert "no_relations" not in text  # a single K is no curve


def test_the_paper_is_beside_the_curve_where_it_has_figures(tmp_path: Path) -> None:
    runs(
        tmp_path / "runs",
        *(ours(algorithm__primitives__count=count) for count in (4, 8)),
        benchmark={"name": "pacs", "fingerprint": "f"},
    )
    text = drawn(tmp_path)
    assert "the paper's" in text
    assert ">16<" in text


def test_a_curve_of_nothing_is_refused(tmp_path: Path) -> None:
    runs(tmp_path / "runs", ours("erm"))
    with pytest.raises(InputError, match="none of these runs has a number of primitives"):
        drawn(tmp_path)
