from typing import Any, get_type_hints

import pytest

from agentctx import wire
from agentctx.client import options


@pytest.mark.parametrize(
    ("arguments", "request_kind", "positional"),
    [
        (options.SaveFields, wire.SaveRequest, {"collection", "content"}),
        (options.EditFields, wire.EditRequest, set()),
        (options.SearchOptions, wire.SearchRequest, {"query"}),
        (options.ContextOptions, wire.ContextRequest, {"query"}),
    ],
)
def test_the_keyword_arguments_are_the_fields_of_the_request(
    arguments: type, request_kind: type, positional: set[str]
) -> None:
    fields: dict[str, Any] = get_type_hints(request_kind)
    expected = {
        name: kind
        for name, kind in fields.items()
        if name not in positional and name != "__pydantic_config__"
    }

    assert get_type_hints(arguments) == expected
