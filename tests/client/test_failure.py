import json
from typing import Any

import pytest

from agentctx import errors
from agentctx.client.failure import error_of, failure_of, parse
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError, StorageFull
from agentctx.wire import ErrorBody

TREE = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentctxError)]


def reply(status: int, body: Any) -> HttpReply:
    return HttpReply(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("kind", TREE)
def test_every_error_comes_back_as_its_own_class(kind: type[AgentctxError]) -> None:
    error = error_of(ErrorBody(code=kind.code, message="what", hint="next"))

    assert type(error) is kind
    assert (error.code, error.message, error.hint) == (kind.code, "what", "next")


def test_the_daemons_empty_hint_is_not_replaced_by_ours() -> None:
    assert error_of(ErrorBody(code=StorageFull.code, message="full")).hint == ""


def test_an_unknown_code_is_kept() -> None:
    error = failure_of(reply(418, {"error": {"code": "teapot", "message": "short and stout", "hint": "tip"}}))

    assert type(error) is AgentctxError
    assert (error.code, error.message, error.hint) == ("teapot", "short and stout", "tip")
    assert AgentctxError.code == "internal"


@pytest.mark.parametrize(
    "body", [b"Invalid HTTP request received.", b"", {"detail": "no"}, [], {"error": "no"}]
)
def test_an_answer_that_is_not_ours_still_is_an_error(body: Any) -> None:
    error = failure_of(reply(400, body))

    assert "HTTP 400" in error.message
    assert error.hint


def test_a_success_that_is_not_json_is_an_error() -> None:
    with pytest.raises(AgentctxError, match="HTTP 200"):
        parse(reply(200, b"<html>"))


def test_an_error_says_under_which_id_the_daemon_logged_it() -> None:
    assert error_of(ErrorBody(code="internal", message="x", request_id="4f1c")).request_id == "4f1c"
    assert error_of(ErrorBody(code="internal", message="x")).request_id == ""
