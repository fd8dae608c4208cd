"""Build the entries to save at the end of a turn: the turn, fixes of failed tools, summaries. No I/O.

Imported only when something is saved, so that a prompt's hook starts without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final, NamedTuple

from agentctx.agents.hooks.injected_text import without_injected
from agentctx.agents.hooks.own_words import own_words
from agentctx.agents.hooks.tool_failures import learned
from agentctx.agents.hooks.transcribed_turns import TranscribedTurn
from agentctx.agents.hooks.turns import remembered_parts

MAX_SUMMARY_CHARS: Final = 20_000


class RememberedEntry(NamedTuple):
    """An entry to save. `key`, which may be empty, is the same if the same end of turn is reported twice, or
    read from the transcript. With the time in it the daemon makes the id from it.
    """

    body: dict[str, Any]
    key: str = ""


class EntryBuilder(NamedTuple):
    """Builds the entries of one client's session in a namespace."""

    client: str
    session: str
    namespace: str

    def turn(self, payload: Mapping[str, Any], turn: TranscribedTurn) -> Iterator[RememberedEntry]:
        """Yield the entries of a finished turn. For prompt and answer, `payload` is more reliable than the
        transcript, except with Gemini CLI, whose payload repeats pieces of the answer.
        """
        prompt = _text(payload.get("prompt")) or turn.prompt
        answer = _text(payload.get("last_assistant_message")) or turn.answer
        own = own_words(turn.typed) if _squeezed(prompt) == _squeezed(turn.prompt) else ""
        answer = answer or _text(payload.get("prompt_response"))
        parts = remembered_parts(own or prompt, answer, is_typed=bool(own))
        is_own = {"prompt": bool(own), "answer": not turn.has_read}
        name = turn.name or str(turn.at or "")
        named = _digest(self.session, name)[:16] if name else token_hex(8)
        for part, text in parts.items():
            fields = {"session": self.session, "content": text, "turn": named, "part": part}
            identity = f"{name}\0{part}\0{text}" if name else ""
            yield self._entry("observation", fields, identity, turn.at, own_words=is_own[part])
        for call, learning in learned(turn.calls):
            if call in turn.own_calls:
                yield self._entry("learning", learning._asdict(), call, turn.at)
        for summary in turn.summaries:
            yield from self.summary(*summary)

    def summary(self, text: object, at: int = 0) -> Iterator[RememberedEntry]:
        """Yield the entry for a compaction's summary of the conversation."""
        if kept := without_injected(_text(text))[:MAX_SUMMARY_CHARS]:
            yield self._entry("reflection", {"session": self.session, "content": kept}, kept, at)

    def _entry(
        self, collection: str, fields: dict[str, str], identity: str, at: int, **flags: bool
    ) -> RememberedEntry:
        body = {"collection": collection, "namespace": self.namespace, "agent": self.client}
        key = f"hook-{_digest(self.session, collection, identity)}" if identity else ""
        if key and 0 < at < 1 << 48:
            key = f"hook-{at:012x}-{key.removeprefix('hook-')}"
        texts = {name: text.replace("\0", "") for name, text in fields.items()}  # output of a program
        return RememberedEntry({**body, "origin": "capture", **texts, **flags}, key)


def turn_name(client: str, event: str, payload: Mapping[str, Any]) -> str:
    """Return the id that event and transcript give to the turn that the event ends; empty without one."""
    if client == "qwen":  # its transcript does not name turns
        return ""
    name = payload.get("prompt_id") or payload.get("turn_id")
    if event == "agentStop":  # Copilot's transcript has each event of a hook, with its time
        name = payload.get("timestamp")
    return str(name) if isinstance(name, str | int) else ""


def is_written(turn: TranscribedTurn, name: str, payload: Mapping[str, Any]) -> bool:
    """Return whether `turn`, which was found for `name`, is complete and is the one that the event ends.

    Without a name, its prompt or answer must match the event's; if that has neither, the last turn counts.
    """
    answer, prompt = _text(payload.get("last_assistant_message")), _text(payload.get("prompt"))
    if name and turn.name != name:
        return False
    if answer:
        return bool(turn.answer) and _squeezed(answer).endswith(_squeezed(turn.answer))
    return bool(turn.answer) and _squeezed(prompt) in {"", _squeezed(turn.prompt)}


def _digest(*names: str) -> str:
    return sha256("\0".join(names).encode(errors="replace")).hexdigest()


def _squeezed(text: str) -> str:
    return "".join(without_injected(text).split())


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
