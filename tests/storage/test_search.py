"""A filter takes lists of a stated length, and no longer ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentctx.config.schema import MAX_COLLECTIONS
from agentctx.errors import InvalidInput
from agentctx.storage.entries import ExportSelection
from agentctx.storage.search import MAX_LISTED, Filter
from agentctx.wire import COLLECTIONS

LISTS: dict[str, Callable[[tuple[str, ...]], object]] = {
    "tags": lambda names: Filter(namespace="default", tags=names),
    "collections": lambda names: Filter(namespace="default", collections=names),
    "namespaces": lambda names: ExportSelection(namespaces=names),
    "collections in": lambda names: ExportSelection(collections=names),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_bounded(name: str) -> None:
    names = tuple(f"n{number}" for number in range(MAX_LISTED[name.split(maxsplit=1)[0]] + 1))
    LISTS[name](names[1:])
    with pytest.raises(InvalidInput, match=f"{len(names)}"):
        LISTS[name](names)


def test_all_declared_collections_can_be_named() -> None:
    assert MAX_COLLECTIONS + len(COLLECTIONS) <= MAX_LISTED["collections"]
