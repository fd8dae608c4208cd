from __future__ import annotations

import pytest

from agentctx.errors import InvalidInput
from agentctx.llm.dialects.registry import DIALECTS, find_dialect


def test_every_dialect_is_found_by_its_name() -> None:
    for name, dialect in DIALECTS.items():
        assert find_dialect(name) is dialect
        assert dialect.name == name


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput) as raised:
        find_dialect("openai")
    assert "openai_chat" in raised.value.hint
