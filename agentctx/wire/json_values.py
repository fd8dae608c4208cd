"""How many values a JSON text holds, before it is parsed: millions hold the event loop for seconds."""

from __future__ import annotations

import re
from typing import Final

MAX_VALUES: Final = 50_000
"""In one body: 1,000 entries of 15 fields and 32 tags fit in. Parsing that many takes some 50 ms."""

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def holds_too_many(text: str, most: int = MAX_VALUES) -> bool:
    """Whether it holds more values than that.

    Every value but the first of its list or object follows a comma, and that one a bracket. Those inside
    strings count only if there are so many that it is worth a second look.
    """
    return _separators(text) > most and _separators(_STRING.sub("", text)) > most


def _separators(text: str) -> int:
    return text.count(",") + text.count("[") + text.count("{")
