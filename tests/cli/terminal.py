"""Standard streams that claim to be a terminal."""

from __future__ import annotations

import io
import sys

import pytest


class Terminal(io.TextIOWrapper):
    """A text stream in memory with `isatty`."""

    def __init__(self, text: str = "") -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def written(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Terminal:
    """Let a user give an answer; return the stderr that it is asked on."""
    err = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", err)
    return err
