"""Normalizes error messages, so that a recurring error is recognised. Pure."""

from __future__ import annotations

import re

_VARIABLE_PARTS = (
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d[\d:.,]*(?:z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"), "<id>"),
    (re.compile(r"(?:\b[a-z]:\\|(?<![\w/])~?/)[^\s:'\"()<>]+"), "<path>"),
    (re.compile(r"\d+(?:\.\d+)*"), "<n>"),
)


def normalize_error(message: str) -> str:
    """Lower the message, put placeholders for ids, times, paths and numbers, and fold white space."""
    levelled = message.lower()
    for pattern, placeholder in _VARIABLE_PARTS:
        levelled = pattern.sub(placeholder, levelled)
    return " ".join(levelled.split())
