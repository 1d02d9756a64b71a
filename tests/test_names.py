"""The names of the package: one public type each, and no document that names a file which is gone."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "parse_dg"
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md")), *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = ("folder/module.py",)
"""Files of a user."""


def public_types(module: ast.Module) -> list[str]:
    """Classes and type aliases at the top of a module; a type variable means nothing outside its module."""
    names = []
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar("):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if re.match("[A-Z][a-z]", name)]


def test_no_two_public_types_share_a_name() -> None:
    owners = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in public_types(ast.parse(path.read_text())):
            owners[name].append(str(path.relative_to(ROOT)))
    assert len(owners) > 200
    assert {name: where for name, where in owners.items() if len(where) > 1} == {}


def test_the_model_reads_no_files_logs_nothing_and_downloads_nothing() -> None:
    barred = {"logging", "pathlib", "os", "io", "urllib", "safetensors", "pickle", "tempfile", "shutil"}
    for path in (PACKAGE / "model").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not barred & {name.partition(".")[0] for name in names}, path
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called not in ("open", "print", "torch.load", "torch.save"), path
            assert not called.startswith("torch.hub."), path


def test_files_of_ours_that_are_named_exist() -> None:
    modules = {path.name for path in PACKAGE.rglob("*.py")}
    gone = []
    for path in (*DOCUMENTS, *PACKAGE.rglob("*.py")):
        for name in re.findall(r"(?<![\w/.-])(?:\w+/)*\w+\.py\b", path.read_text()):
            bare = "/" not in name and (name in modules or path in DOCUMENTS)  # a document's may be the user's
            if not (name in EXAMPLES or bare or (ROOT / name).exists() or (PACKAGE / name).exists()):
                gone.append(f"{path.name}: {name}")
    assert not gone, "; ".join(gone)
