from __future__ import annotations

import json
from typing import Any

import pytest

from agentctx.embedding_providers.remote.faults import refusal
from agentctx.errors import Disposition, ProviderFailed


def refused(
    status: int, reply: Any = None, *, withheld: tuple[str, ...] = (), **headers: str
) -> ProviderFailed:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal(status, named, json.dumps(reply).encode(), now=0.0, withheld=withheld)


@pytest.mark.parametrize(
    ("statuses", "disposition"),
    [
        ((300, 301, 302, 303, 304, 307, 308), Disposition.STOP),
        ((400, 413, 422), Disposition.SPLIT),
        ((401, 402, 403, 404, 405, 410, 451), Disposition.STOP),
        ((408, 409, 425, 429, 500, 502, 503, 504, 529), Disposition.RETRY),
    ],
)
def test_what_a_status_means(statuses: tuple[int, ...], disposition: Disposition) -> None:
    for status in statuses:
        failed = refused(status)
        assert (failed.disposition, failed.retry_after_s) == (disposition, None), status
        assert str(status) in failed.message


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503])
def test_a_transient_refusal_with_a_pause_is_for_later(status: int) -> None:
    failed = refused(status, retry_after="12")
    assert (failed.disposition, failed.retry_after_s) == (Disposition.LATER, 12)


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_a_pause_changes_nothing_for_a_refusal_that_time_does_not_heal(status: int) -> None:
    assert refused(status, retry_after="12").retry_after_s is None


def test_reports_of_rate_limits_count_for_429_alone() -> None:
    assert refused(429, x_ratelimit_reset_tokens="6s").retry_after_s == 6
    assert refused(500, x_ratelimit_reset_tokens="6s").disposition is Disposition.RETRY


def test_the_retry_info_of_google_is_a_pause() -> None:
    reply = {"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "34s"}]}}
    failed = refused(429, reply)
    assert (failed.disposition, failed.retry_after_s) == (Disposition.LATER, 34)
    assert failed.message == "The provider answered 429 (RESOURCE_EXHAUSTED)."


@pytest.mark.parametrize(
    "error",
    [
        {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]},
        {"code": 400, "status": "FAILED_PRECONDITION", "message": "User location is not supported"},
        {"code": "invalid_api_key"},
    ],
)
def test_a_wrong_key_or_project_under_status_400_stops_instead_of_splitting(error: dict[str, Any]) -> None:
    failed = refused(400, {"error": error}, withheld=("what does API_KEY_INVALID mean",))
    assert failed.disposition is Disposition.STOP
    assert "api_key" in failed.hint


def test_codes_are_shown_once_and_prose_never() -> None:
    error = {"message": "I dislike 'my diary'", "type": "insufficient_quota", "code": "insufficient_quota"}
    assert refused(429, {"error": error}).message == "The provider answered 429 (insufficient_quota)."


@pytest.mark.parametrize(
    "code", ["sk-abc123", "diary", "my diary", "a" * 49, 7, None, ["x"], "codeMYKEYcode"]
)
def test_a_code_that_could_be_key_or_text_is_not_shown(code: Any) -> None:
    failed = refused(400, {"error": {"code": code}}, withheld=("my diary of 2026", "MYKEY"))
    assert failed.message == "The provider answered 400."


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 99_999, b"[]", b'"x"', b'{"error": []}'])
def test_any_body_will_do(body: bytes) -> None:
    failed = refusal(503, {}, body, now=0.0, withheld=())
    assert failed.disposition is Disposition.RETRY
