import pytest
from pydantic import ValidationError

from agentctx.errors import InvalidInput
from agentctx_testing.fake_provider.faults import KINDS, Hint, HttpFault, go_duration, hint_headers


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("429", HttpFault.with_status(429)),
        (
            "429,hint=date,after_s=2.5,request=1",
            HttpFault.with_status(429, hint="date", after_s=2.5, request=1),
        ),
        ("reset,provider=cohere,times=2", HttpFault(kind="reset", provider="cohere", times=2)),
        ("400,contains=a=b", HttpFault.with_status(400, contains="a=b")),
    ],
)
def test_a_spec_is_a_fault(spec: str, expected: HttpFault) -> None:
    assert HttpFault.parse(spec) == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "status"])
def test_every_kind_can_be_written(kind: str) -> None:
    assert HttpFault.parse(kind).kind == kind


@pytest.mark.parametrize(
    "spec", ["", "burn", "200", "600", "429,hint=soon", "429,colour=red", "nan,request=0"]
)
def test_an_invalid_spec_lists_the_valid_ones(spec: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        HttpFault.parse(spec)
    assert "Invalid fault" in caught.value.message
    assert "truncated_json" in str(caught.value.hint)


def test_a_redirect_is_not_an_error_status() -> None:
    with pytest.raises(ValidationError, match="300 to 399"):
        HttpFault(kind="redirect", status=404)


def test_conditions_add_up() -> None:
    fault = HttpFault(kind="nan", request=2, provider="openai", contains="poison")
    poisoned = {"input": ["fine", {"deep": "some poison here"}]}
    assert fault.matches(2, "openai", poisoned)
    assert not fault.matches(1, "openai", poisoned)
    assert not fault.matches(2, "cohere", poisoned)
    assert not fault.matches(2, "openai", {"input": ["fine"]})
    assert not fault.matches(2, "openai", None)
    assert HttpFault(kind="nan").matches(7, "ollama", None)


NOW_MS = 1_795_305_600_000  # 2026-11-22 00:00:00 UTC


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("seconds", {"retry-after": "67.5"}),
        ("date", {"retry-after": "Sun, 22 Nov 2026 00:01:07 GMT"}),
        ("milliseconds", {"retry-after-ms": "67500"}),
        ("reset_requests", {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m7.5s"}),
        ("reset_tokens", {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m7.5s"}),
        ("retry_info", {}),
        (None, {}),
    ],
)
def test_a_hint_is_a_header(hint: Hint | None, expected: dict[str, str]) -> None:
    assert hint_headers(HttpFault.with_status(429, hint=hint, after_s=67.5), now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (0.02, "20ms"), (6, "6s"), (60, "1m0s"), (3_661.5, "1h1m1.5s")]
)
def test_durations_are_written_as_go_does(seconds: float, expected: str) -> None:
    assert go_duration(seconds) == expected
