"""Recognise and remove context that programs put into prompts. No I/O."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_TAGS: Final = tuple(
    """
    hook_context qwen:user-prompt-submit-context session_context system-reminder system_reminder
    environment_context user_instructions user-memory-input local-command-stdout local-command-stderr
    local-command-caveat command-name command-message command-args bash-input bash-stdout bash-stderr
    ide_opened_file ide_selection task-notification claude-mem-context relevant-memories relevant_memories
    memory-context
    """.split()  # noqa: SIM905 - a literal would take one line per word
)
_HEADING: Final = "## Semantic Context (RAG)\n"
_INJECTED: Final = [
    *((f"<{tag}>", f"</{tag}>", "") for tag in _TAGS),
    (_HEADING, "</memory ", ">"),
    (_HEADING, "&lt;/memory ", "&gt;"),
]
"""Markers of the begin and the end of injected context, and what closes the end marker: our own block ends
with its fence, which Qwen Code escapes."""
_PASSAGE: Final = r'(?m)^### \[[^\]\n]+\] "[^"\n]*" [^\n]*trust=[^\n]*\n(?:>[^\n]*(?:\n|$))*'
"""A passage of our block that was copied without its fence."""
_LABEL_END: Final = " hook additional context:"
_LABEL: Final = rf"(?m)^\w+{_LABEL_END}[ \t]*"


def without_injected(text: str) -> str:
    """Remove context that programs put into the text, in linear time. An unterminated block is kept."""
    for begin, end, closing in _INJECTED:
        kept: list[str] = []
        at = 0
        while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start)) >= 0:
            kept += [text[at:start], " "]
            closed = text.find(closing, stop + len(end))
            at = closed + len(closing) if closed >= 0 else len(text)
        text = "".join(kept) + text[at:]
    if "\n### [" in f"\n{text}":
        text = re.sub(_PASSAGE, "", text)
    if _LABEL_END in text:
        text = re.sub(_LABEL, "", text)
    return text.strip()
