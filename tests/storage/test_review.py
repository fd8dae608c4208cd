"""How the mode of captures follows from what hooks ask for."""

from __future__ import annotations

import pytest

from agentctx.storage.review import mode_after
from agentctx.wire import CaptureMode, RememberMode


@pytest.mark.parametrize(
    ("known", "asked", "mode"),
    [
        (None, "auto", "auto"),
        (None, "review", "review"),
        ("auto", "auto", "auto"),
        ("auto", "review", "review"),
        ("review", "auto", "review"),
        ("review", "review", "review"),
        ("always", "auto", "always"),
        ("always", "review", "always"),
    ],
)
def test_a_hook_asks_for_a_review_and_never_ends_one(
    known: CaptureMode | None, asked: RememberMode, mode: CaptureMode
) -> None:
    assert mode_after(known, asked) == mode
