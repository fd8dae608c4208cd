import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx_importers import json_elements
from agentctx_importers.json_elements import elements, values
from agentctx_importers.records import Unreadable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Trickle(io.BytesIO):
    """Gives a few bytes at a time, so that elements span reads."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read(self, size: int | None = -1, /) -> bytes:
        del size
        return super().read(self._step)


@given(st.lists(VALUES), st.integers(1, 9), st.booleans())
def test_a_list_yields_its_elements(values: list[Any], step: int, is_ascii: bool) -> None:
    data = json.dumps(values, ensure_ascii=is_ascii, indent=step % 3 or None).encode()
    assert [each.value for each in elements(Trickle(data, step))] == values


@given(st.dictionaries(st.text(), VALUES), st.integers(1, 9))
def test_an_object_yields_the_elements_of_its_lists_and_its_other_members(
    document: dict[str, Any], step: int
) -> None:
    found = [each[:2] for each in elements(Trickle(json.dumps(document).encode(), step))]
    expected = []
    for name, value in document.items():
        expected += [(name, each) for each in value] if isinstance(value, list) else [(name, value)]
    assert found == expected


def test_an_element_over_the_limit_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "MAX_ELEMENT_BYTES", 100)
    data = b'{"a": [1, "' + b"x" * 500 + b'", 2], "b": 3}'
    assert [each[:2] for each in elements(io.BytesIO(data))] == [("a", 1), ("a", None), ("a", 2), ("b", 3)]


@pytest.mark.parametrize("data", [b"", b"[1, 2", b'{"a":', b"]", b"hello", b"[1]]", b'["', b"[" * 100_000])
def test_what_is_not_complete_json_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        list(elements(io.BytesIO(data)))


def test_elements_nested_too_deep_are_not_values() -> None:
    data = b"[" + b"[" * 100_000 + b"]" * 100_000 + b",1]"
    assert [each.value for each in elements(io.BytesIO(data))] == [None, 1]


def test_a_document_that_is_one_object_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"a": [1, {"b": 2}], "c": {"d": [3]}, "e": None}
    data = json.dumps(document).encode()
    assert list(values(io.BytesIO(data))) == [document]
    assert list(values(io.BytesIO(b"[1, 2]"))) == [1, 2]
    assert list(values(io.BytesIO(b"{}"))) == []
    monkeypatch.setattr(json_elements, "MAX_ELEMENT_BYTES", 20)
    with pytest.raises(Unreadable, match="too large"):
        list(values(io.BytesIO(b'{"a": [' + b'"123456789",' * 5 + b"1]}")))
