"""A filter takes lists of a stated length, and no longer ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentctx.errors import InvalidInput
from agentctx.storage.entries import ExportSelection
from agentctx.storage.search import MAX_LISTED, Filter

LISTS: dict[str, Callable[[tuple[str, ...]], object]] = {
    "tags": lambda names: Filter(namespace="default", tags=names),
    "collections": lambda names: Filter(namespace="default", collections=names),
    "namespaces": lambda names: ExportSelection(namespaces=names),
    "collections in": lambda names: ExportSelection(collections=names),
}
MANY = tuple(f"t{number}" for number in range(MAX_LISTED + 1))


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_bounded(name: str) -> None:
    LISTS[name](MANY[1:])
    with pytest.raises(InvalidInput, match=name):
        LISTS[name](MANY)
