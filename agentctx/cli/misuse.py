"""Usage errors in plain words, instead of the validator's messages."""

from __future__ import annotations

import re
from typing import Any, Final

import typer

MISUSE: Any = typer.BadParameter.__bases__[0]
"""What typer raises for any wrong command line; it exports only this subclass."""

_PLAIN: Final = (
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be greater than or equal to (\S+)"), r"use \1 or more"),
    (re.compile(r"Input should be less than or equal to (\S+)"), r"use \1 or less"),
    (re.compile(r"Input should be greater than (\S+)"), r"use more than \1"),
    (re.compile(r"Input should be less than (\S+)"), r"use less than \1"),
    (re.compile(r"Input should be a valid integer.*"), "use a whole number"),
    (re.compile(r"Input should be a valid number.*"), "use a number"),
)


def in_plain_words(message: str) -> str:
    """The message without the validator's phrases."""
    for phrase, plain in _PLAIN:
        message = phrase.sub(plain, message)
    return message
