"""The steps of a tool call: requests to the daemon, and questions to the user. No I/O."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from agentctx.agents.mcp import tools
from agentctx.agents.mcp.asking import MAX_SHOWN_CHARS, Form, FormAnswer, answer_to, opened, question, shown
from agentctx.agents.mcp.protocol import McpToolCall
from agentctx.agents.mcp.tool_list import Json
from agentctx.agents.mcp.tools import ApiRequest, ToolScope, entry_path
from agentctx.names import normalised, readable

Steps: TypeAlias = Generator[Any, Any, Any]
"""Yields `ApiRequest` and `Form`; receives replies (None: an `optional` request was refused) and answers."""

_CHOICES: Final = {
    "skip": "Skip: it still waits",
    "keep": "Keep",
    "always": "Always keep what this agent captures here",
    "forget": "Forget",
    "stop": "Stop the review",
}
_NOT_DONE: Final = "not done, since it changed meanwhile or its new text was refused"


def call_steps(call: McpToolCall, scope: ToolScope, *, secret: bytes) -> Steps:
    """Yield the steps of a call; return the text for the model, or what a stateless client must answer first.

    Raises:
        InvalidToolArguments: an argument is invalid, or the entry is outside the scope's namespaces, since an
            id alone would reach any namespace.
    """
    key = secret + json.dumps([call.name, call.arguments], sort_keys=True).encode()
    shown_form, progress = opened(call.state, key)
    steps = _review(scope, call.forms, progress) if call.name == "review" else _one_request(call, scope)
    reply = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as done:
            return done.value
        if not (call.is_stateless and isinstance(step, Form)):
            reply = yield step
        elif call.answer is None or shown_form != [step.about, step.params]:
            return question(step, key)
        else:
            reply, shown_form = answer_to(step, call.answer), None


def _one_request(call: McpToolCall, scope: ToolScope) -> Steps:
    request, refusal = tools.request_of(call.name, call.arguments, scope), ""
    body = request.body or {}
    if request.entry is not None:
        view = yield ApiRequest("GET", entry_path(request.entry))
        if view["namespace"] not in scope.asked:
            raise tools.InvalidToolArguments("This project has no such entry. Use an id from search.")
        if call.forms and call.name == "forget":
            refusal = yield from _consent(view, "Forget this memory? It cannot be undone.", "forget")
            request = request._replace(path=f"{request.path}?if_version={view['version']}")
    elif call.forms and "key" in body and (old := (yield from _conflict(body, scope))):
        refusal = yield from _consent(old, f"Replace this memory by {_quoted(body['content'])}?", "replace")
        request = request._replace(body={**body, "if_version": old["version"]})
    if refusal:
        return refusal
    reply = yield request
    scope.note(reply)
    return tools.outcome_text(call.name, reply, namespace=body.get("namespace", ""))


def _consent(view: Json, question: str, choice: str) -> Generator[Form, FormAnswer, str]:
    """Form the user about an entry; return the text for the model unless they make the choice."""
    answer = yield _form(view, question, {"keep": "Keep it as it is", choice: f"{choice.title()} it"})
    if answer.choice == choice:
        return ""
    why = answer.why or "The user refused."
    return f"Nothing was changed. {why} Do not work around it: the user can change {view['id']} themselves."


def _conflict(body: Json, scope: ToolScope) -> Generator[ApiRequest, Any, Json | None]:
    """Return the entry whose text this save would replace without the user's knowledge, or None.

    That is one with the same key and another text that a person saved, or nobody named, that an operator
    trusts, or that changed since this session saw it. Agents share keys, and update what others of them
    saved. What a save `supersedes` is named on purpose, stays readable, and the daemon refuses it if its
    trust is higher.
    """
    named = {"namespace": body["namespace"], "collection": "knowledge", "key": normalised(body["key"])}
    page = yield ApiRequest("GET", f"/v1/entries?{urlencode(named)}", optional=True)
    for old in page["entries"] if page else []:
        is_persons = old["agent"] is None is not scope.agent or old["origin"] == "user"
        is_changed = (scope.seen or {}).get(old["id"], old["version"]) != old["version"]
        if is_persons or is_changed or old["trust"] == "operator":
            return old if old["content"].strip() != body["content"].strip() else None
    return None


def _review(scope: ToolScope, forms: int, progress: Any) -> Steps:
    """Let the user decide about what waits, one form each; return counts alone.

    The model must not learn what waits or was forgotten, which may be an attack.
    """
    left, done = progress or ((yield from _waiting(scope))[:forms], dict[str, int]())
    why = ""
    while left:
        view = yield ApiRequest("GET", entry_path(left[0]), optional=True)
        if view and view["quarantined"] == "waiting" and view["namespace"] in scope.asked:
            scope.note(view)
            answer = yield _keeping(view)._replace(progress=(left, done))
            if answer.choice in {"", "stop"}:
                why = f" {answer.why or 'The user stopped the review.'}"
                break
            ended = yield from _decided(view, answer)
            done = {**done, ended: done.get(ended, 0) + 1}
        left = left[1:]
    counts = ", ".join(f"{count} {name}" for name, count in done.items()) or "nothing"
    return f"The user decided: {counts}.{why} Still waiting: {len((yield from _waiting(scope)))}."


def _waiting(scope: ToolScope) -> Generator[ApiRequest, Any, list[str]]:
    """Return the ids of what waits; what this session has shown comes last."""
    ids: list[str] = []
    for namespace in scope.asked:
        query = urlencode({"namespace": namespace, "waiting": "true", "content": "false", "limit": 1_000})
        page = yield ApiRequest("GET", f"/v1/entries?{query}", optional=True)
        ids += [each["id"] for each in page["entries"]] if page else []
    return sorted(ids, key=lambda each: each in (scope.seen or {}))


def _keeping(view: Json) -> Form:
    content = shown(view["content"])
    text = {"type": "string", "description": f"Write another text to keep that. Now: {content}"}
    if content == view["content"]:  # clients would break another one, like one with several lines
        text |= {"description": "Edit it to keep another text.", "default": content}
    if len(content) == MAX_SHOWN_CHARS:
        choices = {each: _CHOICES[each] for each in ("skip", "forget", "stop")}
        return _form(view, "It is too long to be kept here: `agentctx review` can.", choices)
    form = _form(view, "Keep this memory?", _CHOICES, MAX_SHOWN_CHARS)
    return form if view["collection"] == "learning" else form._replace(text=text)


def _decided(view: Json, answer: FormAnswer) -> Generator[ApiRequest, Any, str]:
    """Do what the user chose; return what was done."""
    path, version = entry_path(view["id"]), view["version"]
    if answer.choice == "forget":
        reply = yield ApiRequest("DELETE", f"{path}?if_version={version}", optional=True)
        return "forgotten" if reply else _NOT_DONE
    if answer.choice not in {"keep", "always"}:
        return "skipped"
    if shown(answer.text) not in {"", shown(view["content"])}:
        edit = {"content": answer.text, "if_version": version}
        is_damaged = "\ufffd" in answer.text  # by a client that could not carry it
        if is_damaged or not (edited := (yield ApiRequest("PATCH", path, edit, optional=True))):
            return _NOT_DONE
        version = edited["version"]
    body = {"way": "elicitation", "version": version, "always": answer.choice == "always"}
    reply = yield ApiRequest("POST", f"{path}/keep", body, optional=True, is_asked=True)
    return "kept" if reply else _NOT_DONE


def _form(view: Json, question: str, choices: dict[str, str], limit: int = 400) -> Form:
    """Build a form that shows an entry: what it is, where, from whom and since when."""
    name, by = f"{view['collection']} {view['key'] or ''}".strip(), view["agent"] or view["origin"]
    place = shown(f"{name} in {readable(view['namespace'])}, from {by}, {view['updated'][:16]}")
    hidden = ", ".join(view["attributes"].get("supersedes") or [])
    more = f" It replaces {shown(hidden)}." if hidden else ""
    message = f"{question} {place}: {_quoted(view['content'], limit)}.{more}"
    return Form(f"{view['id']} {view['version']}", message, choices)


def _quoted(text: str, limit: int = 400) -> str:
    """Return a text as it is shown, in quotation marks that it cannot end."""
    return "“" + shown(text, limit).replace("”", '"') + "”"
