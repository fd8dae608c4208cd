from __future__ import annotations

import base64

import pytest

from agentctx.text.redaction.encoded import decoded

SAID = "the token of the day: abcdefgh"


@pytest.mark.parametrize(
    "run",
    [
        base64.b64encode(SAID.encode()).decode(),
        base64.urlsafe_b64encode(SAID.encode()).decode().rstrip("="),
        base64.b64encode(SAID.encode("utf-16-le")).decode(),
        SAID.encode().hex(),
        SAID.encode().hex(" "),
    ],
)
def test_a_run_is_decoded_and_placed(run: str) -> None:
    [found] = decoded(f"see {run} there")
    assert (found.text, found.start) == (SAID, 4)
    assert found.end <= 4 + len(run)


@pytest.mark.parametrize("after", [" 7 o'clock", " x", "-", "a", " 7a", ""])
def test_pairs_end_with_the_last_whole_pair(after: str) -> None:
    [found] = decoded(f"see {SAID.encode().hex(' ')}{after}")
    assert found.text.startswith(SAID[:-1])


def test_text_that_decodes_to_nothing_is_skipped() -> None:
    digest = "sha512-" + base64.b64encode(bytes(range(100, 164))).decode()
    assert list(decoded(f"{digest} {'f' * 64} iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAf")) == []
