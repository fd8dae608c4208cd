"""Requests generated from the OpenAPI document, and deliberately invalid ones, sent to a real daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.generation import GenerationMode

from tests.end_to_end.daemon_process import DaemonProcess

FAKE_MODEL = '[embedding]\nprovider = "fake"\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path_factory.mktemp("fuzz"), config=FAKE_MODEL).start()
    yield running
    assert not [line for line in running.log if line.get("level") in ("error", "critical")], running.log
    assert running.stop() == 0


@pytest.fixture(scope="module")
def http(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(transport=transport, base_url="http://agentctx", timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def operations(http: httpx.Client) -> list[Any]:
    schema = schemathesis.openapi.from_dict(http.get("/openapi.json").json())
    return [result.ok() for result in schema.get_all_operations()]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_causes_a_server_error(
    mode: GenerationMode, operations: list[Any], http: httpx.Client
) -> None:
    assert len(operations) >= 12
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not _can_be_invalid(operation):
            continue

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Case) -> None:
            response = _send(http, case)
            assert response.status_code < 500, response.text
            if response.status_code >= 400:
                error = response.json()["error"]
                assert error["code"]
                assert error["message"]
            elif mode is GenerationMode.POSITIVE:
                case.operation.validate_response(response)

        check()


def _can_be_invalid(operation: Any) -> bool:
    """Return whether a request of this operation can be invalid."""
    return bool(list(operation.body) or list(operation.query) or list(operation.headers))


def _send(http: httpx.Client, case: Case) -> httpx.Response:
    arguments = case.as_transport_kwargs(base_url="http://agentctx")
    arguments.pop("cookies", None)
    if isinstance(arguments.get("data"), str | bytes):
        arguments["content"] = arguments.pop("data")
    return http.request(**arguments)


def test_the_daemon_still_responds(http: httpx.Client) -> None:
    assert http.get("/readyz").status_code == 200


def test_unknown_paths_get_a_json_error(http: httpx.Client, tmp_path: Path) -> None:
    for path in ("/", "/v1", "/v1/nothing", "/v2/entries", "/v1/entries/../../etc/passwd", "/%00"):
        response = http.get(path)
        assert response.status_code in (400, 404), path
        assert response.json()["error"]["code"] in ("not_found", "invalid_input")
