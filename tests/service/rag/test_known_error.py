"""Whether an error pattern describes an output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.action_gate import MIN_FIT
from agentctx.service.rag.known_error import MAX_QUERY_WORDS, FailedOutput, fits, rarity_of_errors

REFUSED = "connection to 127.0.0.1, port 6433 failed: Connection refused"
MODULE = "ModuleNotFoundError: No module named 'tomlkit' (or 'rich')"
ALTERNATIVES = "TornWrite / checksum of page does not match, another page each time"
RARITY = rarity_of_errors([REFUSED, MODULE, ALTERNATIVES, "permission denied", "no such file or directory"])


@pytest.mark.parametrize(
    ("pattern", "output", "expected"),
    [
        (REFUSED, 'psql: connection to "::1", port 6433 failed: Connection refused\n', True),
        (REFUSED, "curl: (7) Failed to connect to localhost port 80 after 0 ms", False),
        (MODULE, "Traceback\n  File x\nModuleNotFoundError: No module named 'rich'", True),
        (MODULE, "Traceback\n  File x\nModuleNotFoundError: No module named 'numpy'", False),
        (ALTERNATIVES, "store.errors.TornWrite: page 7", True),
        (ALTERNATIVES, "fatal: checksum of page 811 does not match", True),
        (ALTERNATIVES, "fatal: page not found", False),
        (MODULE, "", False),
    ],
)
def test_patterns_and_outputs(pattern: str, output: str, expected: bool) -> None:
    assert (fits(pattern, FailedOutput.of(output), RARITY) >= MIN_FIT["normal"]) == expected


def test_the_lines_that_sound_like_an_error_are_searched_for() -> None:
    output = FailedOutput.of("compiling\nwarning: slow\nerror: linker failed\ndone in 3 s")
    assert output.query == "error linker failed"
    assert FailedOutput.of("it\nbroke").query == "broke it"
    assert (
        len(FailedOutput.of("error " + " ".join(f"w{n}" for n in range(99))).query.split()) == MAX_QUERY_WORDS
    )


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_pattern_has_a_probability(pattern: str, output: str) -> None:
    assert 0 <= fits(pattern, FailedOutput.of(output), RARITY) <= 1
