import pytest

from agentctx.fake_provider.faults import Hint, HttpFault
from agentctx.fake_provider.retry_hints import go_duration, hint_headers

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
    assert hint_headers(HttpFault.refuses(429, hint=hint, after_s=67.5), now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (0.02, "20ms"), (6, "6s"), (60, "1m0s"), (3_661.5, "1h1m1.5s")]
)
def test_durations_are_written_as_go_does(seconds: float, expected: str) -> None:
    assert go_duration(seconds) == expected
