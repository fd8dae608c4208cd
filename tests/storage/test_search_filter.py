"""A filter takes lists of a stated length, and no longer ones."""

from __future__ import annotations

import pytest

from agentctx.errors import InvalidInput
from agentctx.storage.entries import ExportSelection
from agentctx.storage.search import MAX_LISTED, Filter

MANY = tuple(f"t{number}" for number in range(MAX_LISTED + 1))


@pytest.mark.parametrize("name", ["tags", "collections"])
def test_a_list_in_a_filter_is_bounded(name: str) -> None:
    Filter(namespace="default", **{name: MANY[1:]})
    with pytest.raises(InvalidInput, match=name):
        Filter(namespace="default", **{name: MANY})


@pytest.mark.parametrize("name", ["namespaces", "collections"])
def test_a_list_in_a_selection_is_bounded(name: str) -> None:
    ExportSelection(**{name: MANY[1:]})
    with pytest.raises(InvalidInput, match=name):
        ExportSelection(**{name: MANY})
