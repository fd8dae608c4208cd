from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agentctx.errors import InvalidInput
from agentctx.server.parameters import IN_BODY, Header, ParameterLocation, parameters_of, read_values
from agentctx.service.base import Peer


@dataclass
class Own:
    text: str


async def handler(
    request: Request,
    response: Response,
    peer: Peer,
    name: str,
    body: Own,
    other: Annotated[Own | None, IN_BODY] = None,
    limit: Annotated[int, Field(ge=1, description="Rows.")] = 5,
    tag: Annotated[list[str] | None, Field()] = None,
    key: Annotated[str | None, Header("X-Key")] = None,
) -> None: ...


PARAMETERS = list(parameters_of(handler, {"name": None}))
OUTSIDE_BODY = [each for each in PARAMETERS if each.location != "body"]


def request(query: str = "", *headers: tuple[bytes, bytes]) -> Request:
    scope = {"type": "http", "path_params": {"name": "n"}, "query_string": query.encode(), "headers": headers}
    return Request(scope)


def test_each_parameter_has_its_place_and_its_name_there() -> None:
    places: dict[str, tuple[ParameterLocation, str]] = {
        "name": ("path", "name"),
        "body": ("body", "body"),
        "other": ("body", "other"),
        "limit": ("query", "limit"),
        "tag": ("query", "tag"),
        "key": ("header", "X-Key"),
    }
    assert {each.name: (each.location, each.alias) for each in PARAMETERS} == places


def test_absent_values_have_their_defaults() -> None:
    assert read_values(request(), OUTSIDE_BODY) == {"name": "n", "limit": 5, "tag": None, "key": None}


def test_values_are_read_and_converted() -> None:
    given = request("limit=7&tag=a&tag=b", (b"x-key", b"k"))
    assert read_values(given, OUTSIDE_BODY) == {"name": "n", "limit": 7, "tag": ["a", "b"], "key": "k"}


def test_only_lists_may_be_repeated() -> None:
    assert [each.name for each in PARAMETERS if each.is_repeatable] == ["tag"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "parameter `limit` must be at least 1."),
        ("limit=x", "parameter `limit` must be an integer."),
    ],
)
def test_a_wrong_value_is_named(query: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_values(request(query), OUTSIDE_BODY)
    assert caught.value.message == words
