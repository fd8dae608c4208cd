"""Daemons that are stopped after each test."""

from __future__ import annotations

from tests.end_to_end.conftest import make_daemon

__all__ = ["make_daemon"]
