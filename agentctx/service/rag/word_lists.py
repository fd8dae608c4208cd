"""The packaged lists of words: grammar and the words of command lines. Each file is read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

ListFile: TypeAlias = Literal["names", "actions"]


@cache
def lists(name: ListFile) -> Mapping[str, Any]:
    """Return the lists of a file by their names."""
    text = files("agentctx.service.rag").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def words(listed: str) -> frozenset[str]:
    """Return the words of one list of command lines."""
    return frozenset(lists("actions")[listed].split())
