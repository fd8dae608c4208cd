from __future__ import annotations

import pytest

from agentctx.llm.scope import scope_of


def test_without_arguments_and_headers_the_scope_is_unknown() -> None:
    scope = scope_of()
    assert (scope.session, scope.agent, scope.namespaces, scope.conversation) == (None, None, (), None)
    assert not scope.is_off


def test_headers_are_taken_in_any_case() -> None:
    scope = scope_of({"x-agentctx-session": "s", "X-AGENTCTX-AGENT": "a", "X-Agentctx-Namespace": " n "})
    assert (scope.session, scope.agent, scope.namespaces, scope.conversation) == ("s", "a", ("n",), "s")


def test_arguments_go_before_headers() -> None:
    headers = {"X-Agentctx-Session": "h", "X-Agentctx-Agent": "h", "X-Agentctx-Namespace": "h"}
    scope = scope_of(headers, session="s", agent="a", namespace="n")
    assert (scope.session, scope.agent, scope.namespaces) == ("s", "a", ("n",))


@pytest.mark.parametrize(
    ("value", "namespaces"),
    [
        ("git:example.com/a/b, user:ann,default", ("git:example.com/a/b", "user:ann", "default")),
        ("n,n , n", ("n",)),
        (" , ,", ()),
    ],
)
def test_several_namespaces_are_separated_by_commas(value: str, namespaces: tuple[str, ...]) -> None:
    assert scope_of({"X-Agentctx-Namespace": value}).namespaces == namespaces


def test_a_clients_own_session_names_the_conversation_and_filters_nothing() -> None:
    scope = scope_of({"X-Claude-Code-Session-Id": "c", "x-claude-code-agent-id": "sub"})
    assert (scope.session, scope.conversation, scope.agent) == (None, "c", "sub")
    assert scope_of({"X-Claude-Code-Session-Id": "c", "X-Agentctx-Session": "s"}).conversation == "s"


def test_off_is_off_and_everything_else_is_not() -> None:
    assert scope_of({"X-Agentctx-Inject": "OFF"}).is_off
    assert not scope_of({"X-Agentctx-Inject": "on"}).is_off
    assert not scope_of({"X-Agentctx-Inject": ""}).is_off
