from __future__ import annotations

import json
from typing import Any

from agentctx.model_adapters.refusal import broken_off, refusal

KEY = "sk-secret"


def test_a_refusal_has_status_codes_pause_and_reply_and_quotes_nothing() -> None:
    reply = {"error": {"type": "rate_limit_error", "message": f"You said hello with {KEY}", "code": KEY}}
    error = refusal(429, {"retry-after": "7"}, json.dumps(reply).encode(), now=0, key=KEY)
    assert (error.status, error.retry_after_s, error.code) == (429, 7, "model_failed")
    assert error.message == "The API answered 429 (rate_limit_error)."
    assert "retry_after_s" in error.hint
    assert error.reply == reply


def test_googles_code_and_pause_are_read() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}]
    body = json.dumps({"error": {"code": 503, "status": "UNAVAILABLE", "details": details}}).encode()
    error = refusal(503, {}, body, now=0, key="")
    assert (error.message, error.retry_after_s) == ("The API answered 503 (UNAVAILABLE).", 3)


def test_a_redirect_is_not_followed_and_says_so() -> None:
    error = refusal(307, {"location": "https://elsewhere"}, b"", now=0, key=KEY)
    assert "a redirect" in error.message
    assert "elsewhere" not in error.message


def test_any_body_is_taken() -> None:
    for body in (b"", b"<html>", b"[]", b'"x"', b'{"error": "model not found"}', b'{"error": {"code": [1]}}'):
        assert refusal(404, {}, body, now=0, key="").message == "The API answered 404."


def test_errors_within_a_stream_are_known() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failures: list[dict[str, Any]] = [overloaded, {"error": {"code": 500}}, {"error": "out of memory"}]
    for event in failures:
        assert broken_off(event, key="") is not None
    pieces: list[dict[str, Any]] = [
        {"type": "ping"},
        {"error": None, "choices": []},
        {"response": {"error": {"code": "x"}}},
    ]
    for event in pieces:
        assert broken_off(event, key="") is None
