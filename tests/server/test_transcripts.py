"""What requests become and answer is what the transcripts say."""

from __future__ import annotations

import pytest

from tests.server.transcript import FOLDER, recorded

TEXTS = [pytest.param(file.read_text("utf-8"), id=file.stem) for file in sorted(FOLDER.glob("*.txt"))]


@pytest.mark.parametrize("text", TEXTS)
async def test_a_transcript_is_what_happens(text: str) -> None:
    """`python -m tests.server.transcript` records what happens now."""
    assert (await recorded(text)).splitlines() == text.splitlines()
