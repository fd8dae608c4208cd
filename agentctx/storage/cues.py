"""Cues: questions and situations in which an entry matters, in other words than its own. No I/O.

They are searched by words and by meaning, lead to the text of their entry, and are never shown as it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_CUES: Final = 8
"""Maximum per entry. The table of chunks has the same limit."""
MAX_CUE_CHARS: Final = 200


def cues_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cues among the attributes of an entry; none if they are not a list of texts."""
    cues = attributes.get("cues") or ()
    return tuple(cues) if isinstance(cues, list | tuple) and all(isinstance(cue, str) for cue in cues) else ()
