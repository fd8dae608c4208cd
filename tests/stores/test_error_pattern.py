"""The same error is recognised whatever ids, times, paths and numbers it contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.stores.kinds import normalize_error


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed",
            "job 6ba7b810-9dad-11d1-80b4-00c04fd430c8 failed",
        ),
        ("at 2026-11-21T08:00:00.123Z: no", "at 2025-01-02 10:20:30+02:00: no"),
        ("cannot open /var/log/x.log", "cannot open /home/ann/y/z.txt"),
        ("cannot open ~/x.log", "cannot open /x.log"),
        (r"cannot open C:\Users\a\x", r"cannot open D:\b"),
        ("connection to localhost:5432 refused", "connection to localhost:6379 refused"),
        ("object at 0x7f3a2b", "object at 0xdeadbeef"),
        ("commit 3a5f9c0d1e2b4a68 missing", "commit 99aa88bb77cc66dd missing"),
        ("Timeout  after 30 s\n", "timeout after 45 s"),
    ],
)
def test_variable_parts_are_normalised(one: str, other: str) -> None:
    assert normalize_error(one) == normalize_error(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("permission denied", "file not found"),
        ("and/or missing", "either missing"),
        ("KeyError: 'a'", "KeyError: 'b'"),
    ],
)
def test_different_errors_stay_different(one: str, other: str) -> None:
    assert normalize_error(one) != normalize_error(other)


@given(st.text(max_size=200))
def test_normalising_ignores_case(text: str) -> None:
    assert (
        normalize_error(text) == normalize_error(text.upper().lower()) or text.lower() != text.upper().lower()
    )
