"""Names that people give to a model's primitives: where p3 is called beak, sentences say "beak above p11".

They are kept in names.json beside the model, for every model file in that folder with the same primitives (a run's
own and its compact form), and travel inside the files that are made from it. The file says whose primitives it
names: after another training p3 is something else, and its old name is left out.
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from parse_dg.errors import InputError, about
from parse_dg.files import attempting, parse_json, write_json
from parse_dg.jsonable import Jsonable
from parse_dg.model.network import ParseNetwork
from parse_dg.wording import short

NAMES = "names.json"
LONGEST = 40
"""Characters of a name."""
MOST_BYTES = 1 << 20
"""A longer file is not read."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class NamesFile(Jsonable):
    """What names.json holds."""

    primitives: str
    """Whose names these are: `fingerprint` of the network."""
    names: Mapping[str, str]
    """By primitive: {"p3": "beak"}."""


def fingerprint(network: ParseNetwork) -> str:
    """A digest of the projection that makes the primitives what they are; compaction leaves it as it is."""
    digest = hashlib.sha256()
    for name, value in sorted(network.bottleneck.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


def called(primitive: int, names: Mapping[int, str]) -> str:
    """A primitive in a table or below a picture: its number, and its name where it has one."""
    return f"p{primitive} {names[primitive]}" if primitive in names else f"p{primitive}"


def parse_assignment(text: str) -> tuple[int, str]:
    """`p3=beak` → (3, "beak"); nothing after the `=` takes the name away."""
    found = re.fullmatch(r"p?(\d{1,6})=(.*)", text, re.DOTALL)
    if found is None:
        raise InputError(
            f"expected PRIMITIVE=NAME such as p3=beak, or p3= to take its name away, found {short(text)}"
        )
    return int(found[1]), found[2].strip(" ")


def check_names(names: Mapping[int, str], count: int) -> dict[int, str]:
    """The names in the order of their primitives; raises unless each can be said, and tells its primitive apart."""
    taken: dict[str, int] = {}
    for k, name in sorted(names.items()):
        if not 0 <= k < count:
            raise InputError(f"unknown primitive p{k}: valid are p0 to p{count - 1}")
        plain = name.isprintable() and name[:1].isalnum() and name == name.strip() and len(name) <= LONGEST
        if not plain or re.fullmatch(r"p\d+", name):
            rule = f"1 to {LONGEST} characters that can be printed, a letter or digit first, and not like p12"
            raise InputError(f"the name of p{k} must be {rule}, found {short(name)}")
        other = taken.setdefault(name.casefold(), k)
        if other != k:
            raise InputError(f"p{other} and p{k} would both be called {name!r}: a name must tell them apart")
    return dict(sorted(names.items()))


def to_text(names: Mapping[int, str]) -> dict[str, str]:
    """As they are written: {"p3": "beak"}."""
    return {f"p{k}": name for k, name in names.items()}


def from_text(names: Mapping[str, str], count: int) -> dict[int, str]:
    """As they were written."""
    return check_names(dict(parse_assignment(f"{key}={name}") for key, name in names.items()), count)


def read_names(folder: Path, network: ParseNetwork) -> dict[int, str] | None:
    """The names in a folder's names.json, if it is there and they are of this network's primitives."""
    path = folder / NAMES
    if not path.is_file():
        return None
    with attempting(f"read {path}"), path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(f"{path} is longer than the {MOST_BYTES:,} bytes that names may take: move it away")
    with about(path):
        found = NamesFile.from_dict(parse_json(data, "it"))
        if found.primitives == fingerprint(network):
            return from_text(found.names, network.structure.vocabulary.primitives)
    log.warning("%s names the primitives of another model: they are left out", path)
    return None


def change_names(
    folder: Path, network: ParseNetwork, names: Mapping[int, str], changes: Iterable[tuple[int, str]]
) -> dict[int, str]:
    """`names` with changes (an empty name takes one away), written to the folder's names.json and returned.

    Raises before names of another model are lost.
    """
    if (folder / NAMES).exists() and read_names(folder, network) is None:
        raise InputError(f"{folder / NAMES} names the primitives of another model: begin anew with --clear")
    changed = {**names, **dict(changes)}
    return write_names(folder, network, {k: name for k, name in changed.items() if name})


def write_names(folder: Path, network: ParseNetwork, names: Mapping[int, str]) -> dict[int, str]:
    """Write a folder's names.json; returns what is in it."""
    checked = check_names(names, network.structure.vocabulary.primitives)
    content = NamesFile(primitives=fingerprint(network), names=to_text(checked)).to_dict()
    path = folder / NAMES
    with attempting(f"write {path}"):
        write_json(path, content, shared=True)
    return checked
