from __future__ import annotations

import pytest
from pydantic import ValidationError

from agentctx.names import MAX_NAME_CHARS
from agentctx.service.stores.fields import ContextFields, is_plain_name

NAMES = [
    *map(chr, range(0x100)),
    *(f"a{chr(code)}b" for code in range(0x100)),
    *("", "   ", " a ", "s-1", "\u2028", "\ud800", "e\u0301"),
    *("a" * length for length in (MAX_NAME_CHARS, MAX_NAME_CHARS + 1)),
]


def test_the_model_accepts_every_plain_name() -> None:
    refused = [name for name in NAMES if is_plain_name(name) and not _is_valid(name)]
    assert not refused
    assert is_plain_name("s-1")


@pytest.mark.parametrize("name", ["", " ", "a\n", "\x7f", "é", "a" * (MAX_NAME_CHARS + 1)])
def test_other_names_are_left_to_the_model(name: str) -> None:
    assert not is_plain_name(name)


def _is_valid(name: str) -> bool:
    try:
        ContextFields.model_validate({"namespace": "default", "session": name})
    except ValidationError:
        return False
    return True
