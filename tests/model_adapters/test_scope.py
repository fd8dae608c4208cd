from __future__ import annotations

from agentctx.model_adapters.scope import scope_of


def test_without_arguments_and_headers_the_scope_is_unknown() -> None:
    scope = scope_of()
    assert (scope.session, scope.agent, scope.namespace, scope.conversation) == (None, None, None, None)
    assert not scope.is_off


def test_headers_are_taken_in_any_case() -> None:
    scope = scope_of({"x-agentctx-session": "s", "X-AGENTCTX-AGENT": "a", "X-Agentctx-Namespace": " n "})
    assert (scope.session, scope.agent, scope.namespace, scope.conversation) == ("s", "a", "n", "s")


def test_arguments_go_before_headers() -> None:
    headers = {"X-Agentctx-Session": "h", "X-Agentctx-Agent": "h", "X-Agentctx-Namespace": "h"}
    scope = scope_of(headers, session="s", agent="a", namespace="n")
    assert (scope.session, scope.agent, scope.namespace) == ("s", "a", "n")


def test_a_clients_own_session_names_the_conversation_and_filters_nothing() -> None:
    scope = scope_of({"X-Claude-Code-Session-Id": "c", "x-claude-code-agent-id": "sub"})
    assert (scope.session, scope.conversation, scope.agent) == (None, "c", "sub")
    assert scope_of({"X-Claude-Code-Session-Id": "c", "X-Agentctx-Session": "s"}).conversation == "s"


def test_off_is_off_and_everything_else_is_not() -> None:
    assert scope_of({"X-Agentctx-Inject": "OFF"}).is_off
    assert not scope_of({"X-Agentctx-Inject": "on"}).is_off
    assert not scope_of({"X-Agentctx-Inject": ""}).is_off
