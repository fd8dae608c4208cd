import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx import errors
from agentctx.client.decode import UnreadableReply, decode, error_of, failure_of, parse
from agentctx.client.transport import HttpReply
from agentctx.errors import AgentctxError, StorageFull
from agentctx.wire import (
    EntryPage,
    EntryView,
    ErrorBody,
    ErrorReply,
    Passage,
    SaveManyReply,
    SaveResult,
    SearchReply,
    StatusReply,
)
from tests.client.stub_daemon import passage, status_reply

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
attributes = st.dictionaries(st.text(), json_values, max_size=3)
finite = st.floats(allow_nan=False, allow_infinity=False)
replies = st.one_of(
    st.builds(
        SearchReply,
        results=st.lists(
            st.builds(Passage, attributes=attributes, relevance=finite, distance=st.none() | finite),
            max_size=3,
        ),
    ),
    st.builds(EntryPage, entries=st.lists(st.builds(EntryView, attributes=attributes), max_size=3)),
    st.builds(SaveManyReply, results=st.lists(st.builds(SaveResult) | st.builds(ErrorReply), max_size=3)),
)


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(asdict(value)))


@settings(max_examples=60, deadline=None)
@given(replies)
def test_replies_survive_a_round_trip(reply: Any) -> None:
    assert decode(type(reply), as_json(reply)) == reply


def test_nested_dataclasses_are_decoded() -> None:
    status = decode(StatusReply, as_json(status_reply()))

    assert status == status_reply()
    assert status.queue.buried_jobs[0].reason == "the text is empty"


def test_unknown_fields_are_ignored_at_every_depth() -> None:
    value = as_json(SearchReply(results=[passage()], degraded=None))
    value["took_ms"] = 3
    value["results"][0]["language"] = "en"

    assert decode(SearchReply, value) == SearchReply(results=[passage()], degraded=None)


def test_an_unknown_choice_is_kept() -> None:
    value = as_json(passage()) | {"origin": "sensor"}

    assert str(decode(Passage, value).origin) == "sensor"


def test_defaults_replace_absent_fields() -> None:
    result = decode(SaveResult, {"id": "x", "version": 1, "changed": True})

    assert (result.redacted, result.embedding) == ([], "pending")


def test_a_missing_field_is_named() -> None:
    value = as_json(SearchReply(results=[passage(), passage()], degraded=None))
    del value["results"][1]["relevance"]

    with pytest.raises(UnreadableReply, match=r"lacks reply\.results\[1\]\.relevance") as caught:
        decode(SearchReply, value)
    assert "agentctx --version" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"version": "1"}, "reply.version"),
        ({"version": True}, "reply.version"),
        ({"changed": 1}, "reply.changed"),
        ({"redacted": "none"}, "reply.redacted"),
        ({"redacted": [1]}, r"reply.redacted\[0\]"),
        ({"embedding": None}, "reply.embedding"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(UnreadableReply, match=where):
        decode(SaveResult, {"id": "x", "version": 1, "changed": True, **changes})


def test_integers_are_decoded_as_floats() -> None:
    read = decode(Passage, as_json(passage()) | {"distance": 1, "relevance": 0})

    assert (read.distance, read.relevance) == (1.0, 0.0)
    assert isinstance(read.relevance, float)


def test_a_union_takes_the_type_that_fits() -> None:
    reply = SaveManyReply(
        results=[
            SaveResult(id="x", version=1, changed=True),
            ErrorReply(error=ErrorBody(code="invalid_input", message="content is missing")),
        ]
    )

    assert decode(SaveManyReply, as_json(reply)) == reply


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_anything_but_an_object_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableReply, match="an object"):
        decode(SaveResult, value)


ERROR_CLASSES = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AgentctxError)
]


def reply(status: int, body: Any) -> HttpReply:
    return HttpReply(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("kind", ERROR_CLASSES)
def test_every_error_is_raised_as_its_own_class(kind: type[AgentctxError]) -> None:
    error = error_of(ErrorBody(code=kind.code, message="what", hint="next"))

    assert type(error) is kind
    assert (error.code, error.message, error.hint) == (kind.code, "what", "next")


def test_an_empty_hint_of_the_daemon_is_not_replaced() -> None:
    assert error_of(ErrorBody(code=StorageFull.code, message="full")).hint == ""


def test_an_unknown_code_is_kept() -> None:
    error = failure_of(reply(418, {"error": {"code": "teapot", "message": "short and stout", "hint": "tip"}}))

    assert type(error) is AgentctxError
    assert (error.code, error.message, error.hint) == ("teapot", "short and stout", "tip")
    assert AgentctxError.code == "internal"


@pytest.mark.parametrize(
    "body", [b"Invalid HTTP request received.", b"", {"detail": "no"}, [], {"error": "no"}]
)
def test_a_foreign_error_reply_is_still_an_error(body: Any) -> None:
    error = failure_of(reply(400, body))

    assert "HTTP 400" in error.message
    assert error.hint


def test_a_success_that_is_not_json_is_an_error() -> None:
    with pytest.raises(AgentctxError, match="HTTP 200"):
        parse(reply(200, b"<html>"))


def test_an_error_has_the_request_id_of_the_daemons_log() -> None:
    assert error_of(ErrorBody(code="internal", message="x", request_id="4f1c")).request_id == "4f1c"
    assert error_of(ErrorBody(code="internal", message="x")).request_id == ""
