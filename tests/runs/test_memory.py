"""A run that cannot fit into memory is one line, which names what to lower."""

from pathlib import Path
from typing import Any

import pytest
import torch

from parse_dg.errors import FailedError, InputError
from parse_dg.model.vocabulary import Vocabulary, VocabularyConfig, count_columns
from parse_dg.runs.requirements import within_memory
from parse_dg.runs.run import execute, prepare
from tests.conftest import Tiny
from tests.runs.helpers import CPU, quiet


@pytest.mark.parametrize(
    ("field", "value"), [("training.batch_per_domain", 10**9), ("algorithm.primitives.count", 900)]
)
def test_more_than_there_is_is_refused_before_it_is_taken(
    field: str, value: int, tiny: Tiny, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"^{field} is too large: .* at least [\d,.]+ GB of memory"):
        execute(tiny("parse", **{field.replace(".", "__"): value}), tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", [MemoryError, torch.OutOfMemoryError, RuntimeError])
def test_what_runs_out_all_the_same_names_the_settings(kind: type[Exception], tiny: Tiny) -> None:
    config = tiny("parse")
    benchmark, split = prepare(config)
    said = "out of memory on cpu: lower training.batch_per_domain or algorithm.primitives.count"
    with pytest.raises(FailedError, match=said), within_memory(config, benchmark, len(split.training), CPU):
        raise kind("DefaultCPUAllocator: can't allocate memory")
    with pytest.raises(RuntimeError, match="another"), within_memory(config, benchmark, len(split.training), CPU):
        raise RuntimeError("another reason")


@pytest.mark.parametrize("settings", [{}, {"budget": 40}, {"families": "binary", "enumeration": "paper"}])
def test_columns_are_counted_without_being_made(settings: dict[str, Any]) -> None:
    config = VocabularyConfig(**settings)
    assert count_columns(7, config) == Vocabulary(7, config).size
