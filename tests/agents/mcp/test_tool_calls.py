"""The steps of calls that ask the user, against a memory of dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from agentctx.agents.mcp.asking import MAX_SHOWN_CHARS, Form, FormAnswer
from agentctx.agents.mcp.protocol import McpToolCall
from agentctx.agents.mcp.tool_calls import call_steps
from agentctx.agents.mcp.tool_list import TOOLS
from agentctx.agents.mcp.tools import ApiRequest, InvalidToolArguments, ToolScope

Json = dict[str, Any]
NO: Final = FormAnswer(why="The user refused, or the client showed no form.")
TEXT: Final = "The whale eats krill."


def entry(entry_id: str, **fields: Any) -> Json:
    waiting = {"version": 1, "namespace": "p", "collection": "observation", "key": None, "content": TEXT}
    origin = {"agent": "codex", "origin": "capture", "trust": "external", "updated": "2026-11-29T20:30:56Z"}
    return {"id": entry_id, **waiting, **origin, "attributes": {}, "quarantined": "waiting", **fields}


class Memory:
    """Answers requests as the daemon does, and notes those that change something."""

    def __init__(self, *entries: Json) -> None:
        self.entries = {each["id"]: each for each in entries}
        self.changes: list[tuple[Any, ...]] = []
        self.refuses: Callable[[ApiRequest], bool] = lambda _: False

    def reply(self, request: ApiRequest) -> Any:
        if self.refuses(request):
            assert request.optional
            return None
        path = urlsplit(request.path)
        _, _, kind, *rest = path.path.split("/")
        if request.method == "GET" and kind == "entries" and rest:
            return self.entries.get(rest[0])
        if request.method == "GET":
            return {"entries": self._listed({name: value[0] for name, value in parse_qs(path.query).items()})}
        if "query" in (request.body or {}):
            return {"results": [], "block": ""}
        self.changes.append((request.method, request.path, request.body, request.is_asked))
        if request.method == "PATCH":
            self.entries[rest[0]] |= {"version": 2, "content": (request.body or {})["content"]}
        if request.method == "DELETE":
            del self.entries[rest[0]]
        if rest[1:] == ["keep"]:
            self.entries[rest[0]]["quarantined"] = None
        return {"id": rest[0] if rest else "new", "version": 2, "changed": True}

    def _listed(self, query: dict[str, str]) -> list[Json]:
        is_waiting = query.get("waiting") == "true"
        return [
            each
            for each in self.entries.values()
            if each["namespace"] == query["namespace"]
            and (each["quarantined"] == "waiting" if is_waiting else each["key"] == query["key"])
        ]


def a_call(tool: str, *, forms: int = 100, **arguments: Any) -> McpToolCall:
    return McpToolCall(1, tool, arguments, None, is_stateless=False, forms=forms)


def scope(**fields: Any) -> ToolScope:
    return ToolScope("p", "s", "codex", **{"seen": {}, **fields})


def run(
    call: McpToolCall, memory: Memory, *answers: FormAnswer, within: ToolScope | None = None
) -> tuple[str, list[Form]]:
    """Return the text for the model, and the questions; those after the last answer are declined."""
    steps, left = call_steps(call, within or scope(), secret=b"s"), list(answers)
    asked: list[Form] = []
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as done:
            return done.value, asked
        if isinstance(step, Form):
            asked.append(step)
            reply = left.pop(0) if left else NO
        else:
            reply = memory.reply(step)


FORGOTTEN: Final = [("DELETE", "/v1/entries/a?if_version=1", None, False)]


@pytest.mark.parametrize(
    ("answer", "changes", "says"),
    [
        (FormAnswer("forget"), FORGOTTEN, "Forgotten: a."),
        (FormAnswer("keep"), [], "Nothing was changed. The user refused."),
        (NO, [], "Nothing was changed. The user refused, or the client showed no form."),
    ],
)
def test_the_user_decides_what_is_forgotten(answer: FormAnswer, changes: list[Any], says: str) -> None:
    memory = Memory(entry("a", content="x" * 500))
    text, (form,) = run(a_call("forget", id="a"), memory, answer)
    assert (memory.changes, text.startswith(says)) == (changes, True)
    assert form.message.startswith(
        "Forget this memory? It cannot be undone. observation in p, from codex, 2026"
    )
    assert "“xxx" in form.message
    assert len(form.message) < 600


def test_without_forms_nobody_is_asked() -> None:
    memory = Memory(entry("a", key="k", collection="knowledge", agent=None))
    assert run(a_call("save", forms=0, content="new", key="k"), memory)[1] == []
    assert run(a_call("forget", forms=0, id="a"), memory) == ("Forgotten: a.", [])
    assert [each[:2] for each in memory.changes] == [("POST", "/v1/entries"), ("DELETE", "/v1/entries/a")]


def test_an_entry_of_another_project_is_not_shown() -> None:
    with pytest.raises(InvalidToolArguments, match="no such entry"):
        run(a_call("forget", id="a"), Memory(entry("a", namespace="other")))


@pytest.mark.parametrize(
    ("fields", "arguments", "is_asked"),
    [
        ({}, {}, False),
        ({"agent": "claude-code"}, {}, False),
        ({"agent": None}, {}, True),
        ({"origin": "user"}, {}, True),
        ({"trust": "operator"}, {}, True),
        ({"version": 3}, {}, True),
        ({"agent": None}, {"content": " same \n"}, False),
        ({"agent": None, "namespace": "user:ann"}, {"memory": "user"}, True),
        ({"agent": None, "namespace": "user:ann"}, {}, False),
        ({"agent": None}, {"key": "another"}, False),
    ],
)
def test_a_save_that_replaces_what_a_person_wrote_is_a_conflict(
    fields: Json, arguments: Json, is_asked: bool
) -> None:
    old = {"key": "k", "collection": "knowledge", "origin": "agent", "trust": "agent", "content": "same"}
    memory = Memory(entry("a", **{**old, **fields}))
    within = scope(own="user:ann", seen={"a": 1})
    text, asked = run(a_call("save", **{"content": "new", "key": "k", **arguments}), memory, within=within)
    assert (bool(asked), memory.changes == [], text.startswith("Nothing was changed")) == (is_asked,) * 3


def test_a_conflict_shows_both_texts_and_replaces_the_version_that_was_shown() -> None:
    memory = Memory(entry("a", key="k", collection="knowledge", agent=None, content='“old” "', version=7))
    text, (form,) = run(a_call("save", content="new”", key="k"), memory, FormAnswer("replace"))
    assert 'by “new"”? knowledge k in p, from capture' in form.message
    assert form.message.endswith(': ““old" "”.')
    ((_, _, body, _),) = memory.changes
    assert (body["if_version"], text) == (7, "Saved in p as new, version 2.")


def test_a_save_that_may_not_look_for_a_conflict_is_saved() -> None:
    memory = Memory(entry("a", key="k", collection="knowledge", agent=None))
    memory.refuses = lambda request: request.method == "GET"
    assert run(a_call("save", content="new", key="k"), memory)[0].startswith("Saved")


def test_what_this_session_saved_or_found_is_seen() -> None:
    within = scope()
    run(a_call("save", content="new", key="k"), Memory(), within=within)
    within.note({"results": [{"id": "found", "version": 4}]})
    scope(seen=None).note({"id": "new", "version": 2})
    assert within.seen == {"new": 2, "found": 4}


def test_the_user_reviews_what_waits() -> None:
    memory = Memory(
        *(entry(each, content=f"Text {each}.") for each in "abcdef"), entry("x", quarantined=None)
    )
    answers = [
        FormAnswer("keep"),
        FormAnswer("always"),
        FormAnswer("forget"),
        FormAnswer("skip"),
        FormAnswer("stop"),
    ]
    text, asked = run(a_call("review"), memory, *answers)
    assert (
        text
        == "The user decided: 2 kept, 1 forgotten, 1 skipped. The user stopped the review. Still waiting: 3."
    )
    assert [each.about for each in asked] == ["a 1", "b 1", "c 1", "d 1", "e 1"]
    body = {"way": "elicitation", "version": 1}
    assert memory.changes == [
        ("POST", "/v1/entries/a/keep", {**body, "always": False}, True),
        ("POST", "/v1/entries/b/keep", {**body, "always": True}, True),
        ("DELETE", "/v1/entries/c?if_version=1", None, False),
    ]
    assert next(iter(asked[0].choices)) == "skip"


def test_the_model_learns_no_text_of_what_waits() -> None:
    memory = Memory(entry("a", content="SECRET", agent="SECRET"), entry("b", content="SECRET" * 500))
    for answers in (
        [],
        [FormAnswer("forget")],
        [FormAnswer("skip")] * 2,
        [FormAnswer("keep", "SECRET 2"), FormAnswer("stop")],
    ):
        assert "SECRET" not in run(a_call("review"), memory, *answers)[0]


def test_what_this_session_was_shown_comes_last_and_a_call_has_a_limit() -> None:
    memory, within = Memory(*map(entry, "abc")), scope(also=("empty",))
    call = a_call("review", forms=2)
    assert [
        each.about[0] for each in run(call, memory, FormAnswer("skip"), FormAnswer("skip"), within=within)[1]
    ] == ["a", "b"]
    assert [
        each.about[0] for each in run(call, memory, FormAnswer("skip"), FormAnswer("skip"), within=within)[1]
    ] == ["c", "a"]


@pytest.mark.parametrize(
    ("content", "text", "edited"),
    [
        (TEXT, TEXT, None),
        (TEXT, "", None),
        (TEXT, "The whale eats squid.", "The whale eats squid."),
        ("Two\nlines", "Two\ufffdlines", "damaged"),
        ("Two\nlines", "Two  lines ", None),
        ("Two\nlines", "Two\nother lines", "Two\nother lines"),
    ],
)
def test_an_edited_text_is_kept_and_a_damaged_one_is_not(content: str, text: str, edited: str | None) -> None:
    memory = Memory(entry("a", content=content))
    told, (form,) = run(a_call("review"), memory, FormAnswer("keep", text))
    assert form.text is not None
    assert form.text.get("default") == (content if content == TEXT else None)
    if edited == "damaged":
        assert (memory.changes, "1 not done" in told, "waiting: 1" in told) == ([], True, True)
        return
    edits = [("PATCH", "/v1/entries/a", {"content": edited, "if_version": 1}, False)] if edited else []
    version = 2 if edited else 1
    body = {"way": "elicitation", "version": version, "always": False}
    assert memory.changes == [*edits, ("POST", "/v1/entries/a/keep", body, True)]


def test_what_a_form_cannot_show_whole_or_edit_is_not_offered() -> None:
    long = entry("a", content="x " * MAX_SHOWN_CHARS)
    learning = entry("b", collection="learning", attributes={"supersedes": ["old-id"]})
    _, (first, second) = run(a_call("review"), Memory(long, learning), FormAnswer("skip"))
    assert (list(first.choices), first.text) == (["skip", "forget", "stop"], None)
    assert "`agentctx review`" in first.message
    assert ("keep" in second.choices, second.text) == (True, None)
    assert second.message.endswith("It replaces old-id.")


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
def test_what_changed_while_it_was_shown_still_waits(method: str) -> None:
    memory = Memory(entry("a"))
    memory.refuses = lambda request: request.method == method
    answer = (
        FormAnswer("forget") if method == "DELETE" else FormAnswer("keep", "new" if method == "PATCH" else "")
    )
    assert run(a_call("review"), memory, answer)[0].startswith("The user decided: 1 not done")


@pytest.mark.parametrize("state", [{"quarantined": None}, {"namespace": "other"}])
def test_what_was_decided_elsewhere_meanwhile_is_not_shown(state: Json) -> None:
    memory = Memory(entry("a"), entry("b"))

    def decided_elsewhere(request: ApiRequest) -> bool:
        if request.path == "/v1/entries/a":  # which comes after the list
            memory.entries["a"] |= state
            memory.entries.pop("b", None)
        return False

    memory.refuses = decided_elsewhere
    told, asked = run(a_call("review"), memory)
    assert (told, asked) == ("The user decided: nothing. Still waiting: 0.", [])


class TestStateless:
    """The client repeats each call with the answer and the state."""

    def ask(self, memory: Memory, **repeated: Any) -> Any:
        call = a_call("forget", forms=8, id="a")._replace(is_stateless=True, **repeated)
        return run(call, memory, within=scope(seen=None))[0]

    def test_an_answer_counts_with_the_state_of_its_form(self) -> None:
        memory = Memory(entry("a"))
        first = self.ask(memory)
        assert first["inputRequests"]["answer"]["params"]["message"].startswith("Forget this memory?")
        answered = {
            "state": first["requestState"],
            "answer": {"action": "accept", "content": {"decision": "forget"}},
        }
        assert self.ask(memory, **answered) == "Forgotten: a."

    @pytest.mark.parametrize(
        "hostile",
        [
            {"state": None},
            {"state": "0" * 64 + '[["a 1", {}], null]'},
            {"answer": None},
            {"arguments": {"id": "b"}},
            {"name": "review", "arguments": {}},
        ],
    )
    def test_an_answer_to_nothing_or_to_another_form_is_asked_again(self, hostile: Json) -> None:
        memory = Memory(entry("a"), entry("b"))
        answered = {"state": self.ask(memory)["requestState"]}
        answered["answer"] = {"action": "accept", "content": {"decision": "forget"}}
        assert "inputRequests" in self.ask(memory, **(answered | hostile))
        assert memory.changes == []

    def test_a_version_that_was_not_shown_is_asked_again(self) -> None:
        memory = Memory(entry("a"))
        answered = {"state": self.ask(memory)["requestState"]}
        answered["answer"] = {"action": "accept", "content": {"decision": "forget"}}
        memory.entries["a"]["version"] = 2
        assert "inputRequests" in self.ask(memory, **answered)

    def test_a_review_goes_on_where_it_was_and_each_answer_counts_once(self) -> None:
        memory = Memory(*map(entry, "abc"))
        review: Json = {"name": "review", "arguments": {}}
        told = self.ask(memory, **review)
        for choice in ("skip", "keep", "forget"):
            answer = {"action": "accept", "content": {"decision": choice}}
            told = self.ask(memory, **review, state=told["requestState"], answer=answer)
        assert told == "The user decided: 1 skipped, 1 kept, 1 forgotten. Still waiting: 1."


@pytest.mark.parametrize("tool", [*(each["name"] for each in TOOLS), "review"])
def test_no_tool_keeps_what_waits_without_the_users_word(tool: str) -> None:
    given: dict[str, Json] = {
        "search": {"query": "q"},
        "context": {"query": "q"},
        "save": {"content": "c", "key": "k"},
        "learn": {"trigger": "t"},
        "forget": {"id": "a"},
        "feedback": {"id": "a", "success": True},
    }
    for answer in (NO, *map(FormAnswer, ("skip", "forget", "stop", "replace"))):
        memory = Memory(entry("a", key="k", collection="knowledge"))
        run(a_call(tool, **given.get(tool, {})), memory, *[answer] * 5)
        assert not [each for each in memory.changes if each[1].endswith("keep") or each[3]]
