"""The way to the vendors."""

from __future__ import annotations

import pytest

from agentctx.errors import InvalidInput
from agentctx.llm.proxy.upstream import in_ascii, require_inside


@pytest.mark.parametrize(
    "target",
    [b"/v1/../x", b"/..", b"/v1/%2e%2e/x", b"/v1/%2E./x", b"/v1/..\\x", b"/v1/..%2fx", b"/v1/..?a=b"],
)
def test_no_path_escapes_upward(target: bytes) -> None:
    with pytest.raises(InvalidInput):
        require_inside(target)


@pytest.mark.parametrize("target", [b"/v1/a..b", b"/v1/...", b"/v1/models?x=../y", b"", b"/v1/./x"])
def test_dots_in_names_are_accepted(target: bytes) -> None:
    require_inside(target)


def test_a_target_is_sent_as_ascii() -> None:
    assert in_ascii("/v1/é?q=ü b&c=%2F".encode()) == b"/v1/%C3%A9?q=%C3%BC%20b&c=%2F"
