"""What commands send and print is what the transcripts say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.transcript import FOLDER, recorded


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda file: file.stem)
def test_a_transcript_is_what_happens(file: Path) -> None:
    """`python -m tests.cli.transcript` records what happens now."""
    text = file.read_text("utf-8")
    assert recorded(text).splitlines() == text.splitlines()


def test_what_happens_is_recorded_whatever_the_transcript_says() -> None:
    text = "# A daemon that does not know.\n$ agentctx status\n| fine\n"
    assert recorded(text).splitlines() == [
        "# A daemon that does not know.",
        "$ agentctx status",
        "> GET /v1/status",
        "! error: No GET /v1/status.",
        "= 1",
    ]
