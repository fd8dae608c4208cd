"""The package declares what it imports, and nothing that only this repository has."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOADED_BY_OTHERS: Final = {"httptools", "pytest_asyncio"}
"""Loaded by uvicorn and by pytest."""


def imported() -> Iterator[str]:
    """Yield the top-level name of everything the package imports."""
    for path in (ROOT / "agentctx_testing").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    yield from (each.name.split(".")[0] for each in names)
                case ast.ImportFrom(module=str(module)):
                    yield module.split(".")[0]


def test_what_is_declared_is_what_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        re.split(r"[^\w-]", line, maxsplit=1)[0].replace("-", "_") for line in project["dependencies"]
    }
    ours = {"agentctx", "agentctx_testing"}
    assert declared - LOADED_BY_OTHERS == set(imported()) - ours - sys.stdlib_module_names


def test_the_command_line_finds_the_command() -> None:
    (point,) = entry_points(group="agentctx.commands", name="dev")
    assert point.value == "agentctx_testing.fake_provider.command:app"
