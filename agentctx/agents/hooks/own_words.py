"""Tell what a user typed from what a prompt quotes, and records of words alone from all others. No I/O.

What was typed may reach system prompts later, so in doubt nothing counts as typed. A paste without a
mark looks like typing, so only one line counts: what is typed is rarely more, what is pasted rarely less.
"""

from __future__ import annotations

import re
from typing import Any, Final

from agentctx.agents.hooks.injected_text import without_injected
from agentctx.agents.hooks.turns import REQUEST

MAX_OWN_CHARS: Final = 500
_MARKED: Final = re.compile(
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)|^[ \t]*>[^\n]*$|"
    r"^--- Content from referenced files ---.*|\[(?:Pasted text|Image|\.\.\.Truncated text)[^\]\n]{0,80}\]",
    re.MULTILINE | re.DOTALL,
)
"""Fenced code, quoted lines, files that a client added, and its placeholders."""
_REPORT: Final = re.compile("<(?:task-notification|local-command-|command-|bash-)")  # of a client's command
_START: Final = (
    r"[/!#|$%+]|[-*•] |\d+[.)] |>>>|@@|---|diff |at [\w.$<>]+\(|HTTP/|Traceback|\S+@\S+[:~]|"
    r"\[?(?:\d{4}-\d\d-\d\d.)?\d\d:\d\d:|(?:INFO|DEBUG|WARN(?:ING)?|ERROR|TRACE|FATAL)\b|[\w.]*(?:Error|"
    r"Exception|Warning)\s*:|(?i:from|to|cc|date|subject|von|an|betreff|de|objet|asunto|oggetto|assunto|"
    r"user|human|assistant|ai|system|tool|developer|model)\s*[:\uff1a]"
)
"""The start of a heading, list, table, command, log, diff, mail or trace, or of what a speaker says."""
_LOOKS: Final = (
    r"</?[A-Za-z!][^<>]*>|[\[{]\s*[\"'\[{]|[\"“”„«「『][^\"“”„»」』]{30,}[\"“”»」』]|"
    r"(?<!\w)['\u2018][^'\u2018\u2019]{30,}['\u2019](?!\w)|`[^`]{60,}`|\S{120,}"
)
"""Markup, JSON, a long quotation, an endless word."""
_SOURCES: Final = (
    r"page|site|article|post|blog|readme|docs?|documentation|manual|wiki|ticket|issue|comment|thread|e?-?mail|"
    r"message|chat|transcript|logs?|output|stdout|stderr|trace|error|result|response|reply|file|snippet|"
    r"text|paste|quote|summary|says?|said|reads?|wrote|writes|states|prints?|returns?|got|gave|this|these|"
    r"following|below|here|seite|artikel|datei|ausgabe|nachricht|steht|sagt|dies\w*|folgend\w*|fichier|sortie|"
    r"texte|dit|ceci|cette|voici|página|archivo|salida|mensaje|texto|dice|est[oae]s?|pagina|testo|quest[oaie]|"
    r"arquivo|saída|mensagem|diz|страниц\w+|стать\w+|файл\w*|вывод\w*|текст\w*|эт\w+|вот"
)
_THEN: Final = r"[?:](?!//|\d)\s*\S"
_FOREIGN: Final = re.compile(
    rf"^(?:{_START})|{_LOOKS}|(?i:\b(?:{_SOURCES})\b[^.!?:]{{0,60}}(?:{_THEN}|\s[-\u2013\u2014=>]+\s))|[\uff1a\uff1f]\s*\S"
)
"""What looks like a paste, or introduces one and has something behind it."""
_SPOKEN: Final = frozenset({"user", "user.message", "assistant", "assistant.message"})
_UNREAD: Final = frozenset(
    {
        *("system/attribution_snapshot", "system/ui_telemetry", "system.message", "session.start"),
        *("session.usage_record", "session.shutdown", "assistant.turn_start", "assistant.turn_end"),
        *("hook.start", "hook.end"),
    }
)
"""What a client notes down for itself, except the context that a hook may put out."""
_PLAIN: Final = frozenset({"type", "text", "thought"})
_ADDED: Final = (
    *("isMeta", "isSidechain", "isCompactSummary", "toolUseResult", "systemPayload", "agentId", "source"),
    *("attachments", "toolRequests"),
)
"""Fields of a record and its data that add something else, or say that another agent spoke."""


def own_words(prompt: str) -> str:
    """Return the line that the user typed, without the marked blocks around it; empty in doubt."""
    rest = "" if _REPORT.search(prompt) else _MARKED.sub("\n", without_injected(prompt))
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    line = lines[0] if len(lines) == 1 else ""
    if len(line) > MAX_OWN_CHARS or _FOREIGN.search(line):
        return ""
    return "" if REQUEST.match(line) and re.search(_THEN, line) else line


def is_plain(record: dict[str, Any]) -> bool:
    """Return whether a record adds nothing to the conversation but what was typed or answered.

    Only known kinds are plain, of clients that show what the model reads: Claude Code, Codex and Gemini CLI
    begin with texts of files, and plugins send only parts of a conversation.
    """
    kind = "/".join(str(record[name]) for name in ("type", "subtype") if name in record)
    held = record.get("message") or record.get("data")
    if not isinstance(held, dict) or kind in _UNREAD:
        return kind in _UNREAD and not (isinstance(held, dict) and held.get("output"))
    content = held.get("content", held.get("parts"))
    parts = content if isinstance(content, list) else [{"text": content}]
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else None for part in parts]
    is_text = all(isinstance(text, str) for text in texts) and all(part.keys() <= _PLAIN for part in parts)
    if (
        kind not in _SPOKEN
        or not is_text
        or any(each.get(name) for each in (record, held) for name in _ADDED)
    ):
        return False
    return kind.startswith("assistant") or own_words("\n".join(texts)) == "\n".join(texts).strip() != ""
