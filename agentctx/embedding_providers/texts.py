"""What every provider asks of a text before it is sent."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.errors import Disposition, ProviderFailed


def require_unicode(texts: Sequence[str]) -> None:
    """Pass if every text can be written as UTF-8; NUL and any other character is fine.

    Raises:
        ProviderFailed: a text holds half of a surrogate pair (bury when it is alone, else split).
    """
    if all(_is_unicode(text) for text in texts):
        return
    raise ProviderFailed(
        "A text contains a lone surrogate and is not valid Unicode.",
        disposition=Disposition.BURY if len(texts) == 1 else Disposition.SPLIT,
        hint="Save the text again, decoded with errors='replace'.",
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
