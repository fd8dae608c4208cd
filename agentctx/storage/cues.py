"""Cues: questions and situations in which an entry matters, in other words than its own. No I/O.

Keyword and vector search find them; they lead to the text of their entry, and are never shown in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_CUES: Final = 8
"""Maximum number per entry. The table of chunks enforces the same limit."""
MAX_CUE_CHARS: Final = 200


def cues_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cues among the attributes of an entry; none if they are not a list of texts."""
    cues = attributes.get("cues") or ()
    return tuple(cues) if isinstance(cues, list | tuple) and all(isinstance(cue, str) for cue in cues) else ()
