"""Questions to the user, which clients show as forms (MCP elicitation). No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agentctx.agents.mcp.tool_list import Json

MAX_SHOWN_CHARS: Final = 1_500
"""The longest text that a form shows whole: clients cut messages of more than 2,000 characters."""
UNANSWERED: Final = "Nobody answered: the client took the question back, or 10 minutes passed."
ANSWER: Final = "answer"
"""The name of the only question of a stateless result."""
_SIGNED: Final = 64
"""Characters of a signature."""


class Form(NamedTuple):
    """A form. `about` names what it shows, with the version; `text` is the schema of a text to edit.

    The first of the `choices` (title by value) changes nothing: some clients fill it in or send it unasked,
    and some accept what has no choice. `progress` is that of the steps, for a call that is repeated.
    """

    about: str
    message: str
    choices: Mapping[str, str]
    text: Json | None = None
    progress: Any = None

    @property
    def params(self) -> Json:
        """The parameters of `elicitation/create`."""
        values, titles = list(self.choices), list(self.choices.values())
        decision = {"type": "string", "enum": values, "enumNames": titles, "default": values[0]}
        fields = {"decision": decision} | ({"text": self.text} if self.text else {})
        schema = {"type": "object", "properties": fields, "required": ["decision"]}
        return {"message": self.message, "requestedSchema": schema}


class FormAnswer(NamedTuple):
    """The user's choice and text; without a choice, `why` says what happened."""

    choice: str = ""
    text: str = ""
    why: str = ""


def can_show_forms(capabilities: object) -> bool:
    """Return whether a client with these capabilities shows forms; one that names no mode does."""
    declared = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(declared, dict) and ("form" in declared or "url" not in declared)


def answer_to(form: Form, result: object) -> FormAnswer:
    """Read a client's result. Only an accepted choice of the form counts."""
    match result:
        case {"action": "accept", "content": {"decision": str(choice), **rest}} if choice in form.choices:
            return FormAnswer(choice, text if isinstance(text := rest.get("text"), str) else "")
        case {"action": "decline"}:
            return FormAnswer(why="The user refused, or the client showed no form.")
    return FormAnswer(why="The user made no decision, or the client showed no form.")


def shown(text: str, limit: int = MAX_SHOWN_CHARS) -> str:
    """Return a text as one line that is what it looks like, cut to `limit` characters."""
    line = "".join(each if each.isprintable() else "\ufffd" for each in " ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def question(form: Form, key: bytes) -> Json:
    """Return the members of a stateless result that asks for an answer; its state is signed with the key."""
    state = json.dumps([[form.about, form.params], form.progress])
    request = {"method": "elicitation/create", "params": form.params}
    return {"inputRequests": {ANSWER: request}, "requestState": _signature(state, key) + state}


def opened(state: object, key: bytes) -> tuple[Any, Any]:
    """Return the form that a `question` named, and its progress; None for a state that is not from there."""
    if not isinstance(state, str):
        return None, None
    from hmac import compare_digest  # takes long to import, and few calls need it

    signature, text = state[:_SIGNED].encode(errors="replace"), state[_SIGNED:]
    is_own = compare_digest(signature, _signature(text, key).encode())
    return tuple(json.loads(text)) if is_own else (None, None)


def _signature(text: str, key: bytes) -> str:
    from hmac import digest

    return digest(key, text.encode(errors="replace"), "sha256").hex()
