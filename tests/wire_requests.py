"""Short ways to write wire requests."""

from __future__ import annotations

from typing import Any

from agentctx.wire import SearchRequest


def search(query: str, **changes: Any) -> SearchRequest:
    return SearchRequest(query=query, **changes)
