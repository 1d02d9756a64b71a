"""Classes in short: the beginning of what `explain/classes.py` says in full."""

from pathlib import Path

import pytest

from parse_dg.deploy.compaction import compact
from parse_dg.deploy.model_file import load_model
from parse_dg.explain.classes import describe_classes
from parse_dg.explain.report.classes import summarise_classes


@pytest.mark.parametrize(("top", "small"), [(8, False), (100_000, True)])
def test_a_summary_is_the_beginning_of_the_composition(parse_run: Path, top: int, small: bool) -> None:
    model = load_model(parse_run)
    model = compact(model)[0] if small else model
    summaries = summarise_classes(model, top)
    for summary, whole in zip(summaries, describe_classes(model), strict=True):
        assert summary.name == whole.name
        assert summary.terms == whole.terms[:top]
        assert summary.relations == len(whole.terms)
        assert summary.families == pytest.approx(whole.families)
        assert summary.rest == pytest.approx(sum(term.weight for term in whole.terms[top:]), abs=1e-6)
        assert sum(summary.families.values()) == pytest.approx(1, abs=1e-5)
