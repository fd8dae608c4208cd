from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from agentctx.errors import InvalidInput
from agentctx.server.strict_route import StrictRoute, check_query
from tests.server.recording import RecordingService
from tests.server.running import recorded_app

REPEATABLE = {"limit": False, "collection": True}


@pytest.mark.parametrize("query", ["", "limit=1", "collection=a&limit=1&collection=b"])
def test_accepts_parameters_of_the_route(query: str) -> None:
    check_query(QueryParams(query), REPEATABLE)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Limit=1", "Unknown parameter `Limit`."),
        ("limit=1&x", "Unknown parameter `x`."),
        ("=1", "Unknown parameter ``."),
        ("limit=1&limit=1", "The parameter `limit` appears twice."),
    ],
)
def test_refuses_unknown_or_repeated_parameters(query: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_query(QueryParams(query), REPEATABLE)
    assert caught.value.message == words


def test_the_hint_lists_the_known_parameters() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_query(QueryParams("x=1"), REPEATABLE)
    assert caught.value.hint == "Known: limit, collection."


def test_routes_are_analysed_only_when_needed() -> None:
    app = recorded_app(RecordingService())
    routes = [route for route in app.routes if isinstance(route, StrictRoute)]
    assert routes
    assert not any("parameters" in vars(route) for route in routes)
    app.openapi()
    assert all("parameters" in vars(route) for route in routes)
