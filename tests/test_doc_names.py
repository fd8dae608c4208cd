"""Every file, method and function that docs/architecture.md and the pages about design name exists."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentctx.config.schema import Settings

ROOT = Path(__file__).parents[1]
FOLDERS = ("agentctx", "packages", "tests")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [
    ROOT / "docs" / "architecture.md",
    *sorted(ROOT.glob("agentctx/*/DESIGN.md")),
]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NAMED = re.compile(r"`((?:\w+/)*\w+\.py|\w+(?:\.\w+)+)(?:\(\))?`")


@functools.cache
def definitions() -> Mapping[str, set[str]]:
    """Return what each package, module, class and function defines; a class also has what its bases have."""
    found: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, list[str]] = {}
    for path in FILES:
        module = ast.parse(path.read_text(encoding="utf-8"))
        found[path.parent.name].add(path.stem)
        for name in (path.parent.name, path.stem):
            found[name].update(_defined(module))
        for node in ast.walk(module):
            if isinstance(node, _SCOPES):
                found[node.name].update(_defined(node))
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
    for name in bases:
        for base in _ancestors(name, bases):
            found[name] |= found.get(base, set())
    return found


def _defined(scope: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, _SCOPES):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _ancestors(name: str, bases: Mapping[str, list[str]]) -> Iterator[str]:
    for base in bases.get(name, ()):
        yield base
        yield from _ancestors(base, bases)


def settings(model: type[BaseModel] = Settings, section: str = "settings") -> Iterator[str]:
    """Yield each setting with the name of its section: `rag.deadline_s`."""
    for name, field in model.model_fields.items():
        yield f"{section}.{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings(field.annotation, name)


def missing(text: str) -> list[str]:
    """Return the names in a Markdown text of which neither code nor settings have anything."""
    defined, known = definitions(), set(settings())
    return [
        name
        for name in NAMED.findall(text)
        if not (_is_file(name) if name.endswith(".py") else _is_defined(name, defined) or name in known)
    ]


def _is_file(name: str) -> bool:
    return any(path.as_posix().endswith(f"/{name}") for path in FILES)


def _is_defined(name: str, defined: Mapping[str, set[str]]) -> bool:
    owner, member = name.split(".")[-2:]
    return member in defined.get(owner, ())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_everything_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


def test_the_pages_name_files_and_functions() -> None:
    assert len(PAGES) == 5
    assert len(NAMED.findall(PAGES[0].read_text(encoding="utf-8"))) > 15


def test_a_stale_name_is_found() -> None:
    known = "`file/writer.py` `Writer.run` `census()` `UpkeepStorage.census()` `rag.deadline_s` `saving.save`"
    stale = "`file/written.py` `Writer.ran()` `rag.deadline_ms` `saving.saved`"
    assert missing(f"{known} {stale}") == [
        "file/written.py",
        "Writer.ran",
        "rag.deadline_ms",
        "saving.saved",
    ]
