from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.errors import AgentctxError, Disposition, NotFound, ProviderFailed, StorageFull
from agentctx.service.telemetry.labels import (
    CANCELLED,
    DEGRADATIONS,
    ERROR_CODES,
    NOT_ANSWERING,
    OTHER,
    degradation,
    failure_code,
    provider_failure,
    status_class,
)


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("off: no embedding provider is configured", "off"),
        ("deadline: it took longer than 2 s", "deadline"),
        ("model_changed: everything is being embedded with the new model", "model_changed"),
        ("provider_failed: the key was refused", "provider_failed"),
        ("the model has not answered yet", NOT_ANSWERING),
        ("429: Rate limit reached for org-1234", NOT_ANSWERING),
    ],
)
def test_a_reason_is_one_of_few_classes(reason: str, label: str) -> None:
    assert degradation(reason) == label


@given(st.text())
def test_no_reason_makes_a_class_of_its_own(reason: str) -> None:
    assert degradation(reason) in DEGRADATIONS | {NOT_ANSWERING}


def test_an_error_is_its_code() -> None:
    assert failure_code(StorageFull("full")) == "storage_full"
    assert failure_code(asyncio.CancelledError()) == CANCELLED
    assert failure_code(KeyError("a text")) == OTHER
    assert {"not_found", "internal", "version_conflict"} <= ERROR_CODES


def test_an_unknown_code_is_not_a_label() -> None:
    error = AgentctxError("what")
    error.code = "something from a newer daemon"
    assert failure_code(error) == OTHER


def test_a_failed_call_is_labelled_by_its_consequence() -> None:
    assert provider_failure(ProviderFailed("no", disposition=Disposition.STOP)) == "stop"
    assert provider_failure(ValueError("a text")) == "retry"
    assert provider_failure(NotFound("x")) == "retry"
    assert provider_failure(asyncio.CancelledError()) == CANCELLED


def test_statuses_are_counted_by_class() -> None:
    assert [status_class(status) for status in ("200", "204", "404", "507")] == ["2xx", "2xx", "4xx", "5xx"]
