"""What several tests of data need: a folder to unpack into, and a server."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.intake.server import Server, serving


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Path]:
    """A folder that only `there/data` may be written to; the umask is the usual one."""
    before = os.umask(0o022)
    folder = tmp_path / "there"
    folder.mkdir()
    yield folder
    os.umask(before)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server on this machine."""
    monkeypatch.setenv("no_proxy", "*")
    with serving() as made:
        yield made
