"""The saved part of a turn, whenever its client writes the transcript and whenever the daemon is away."""

import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from agentctx.agents.daemon import DaemonRefused, DaemonUnavailable
from agentctx.agents.hooks import capture
from agentctx.agents.hooks.hook import handle
from agentctx.agents.hooks.missed_turns import MAX_AGE_S, MissedTurn, MissedTurns

RECORDED: Final = Path(__file__).parents[1] / "data/transcripts"
PORT: Final = "It listens on port 8443, because 443 is taken by the old gateway."
TURNS: Final = (
    ("p1", "Which port does the shop use?", PORT),
    ("p2", "And which one does the proxy use?", PORT),
    ("p3", "Who restarts the proxy?", "Rosa restarts it, because only she has the key."),
)
STOPS: Final = {"claude-code": "Stop", "codex": "Stop", "copilot": "agentStop"}
ENDS: Final = {"claude-code": "SessionEnd", "codex": "SessionEnd", "copilot": "sessionEnd"}
BLOCKS: Final = 2 * len(TURNS)
"""A client writes the prompt of a turn, then the rest of it."""


class Memory:
    """The daemon's part: what it received, once per key. With `is_away` it does not answer."""

    def __init__(self) -> None:
        self.saved: list[dict[str, Any]] = []
        self.is_away = False
        self.refuses = False
        self._keys: dict[str, dict[str, Any]] = {}

    def ask(self, *request: Any, idempotency_key: str = "", timeout_s: float) -> None:
        del timeout_s
        if self.is_away:
            raise DaemonUnavailable("away")
        if self.refuses:
            raise DaemonRefused("quota_exceeded", "Too much.", "")
        known = self._keys.setdefault(idempotency_key or str(len(self.saved)), request[-1])
        if known is request[-1]:
            self.saved.append(request[-1])
        elif known != request[-1]:
            raise DaemonRefused("idempotency_key_reused", "Another body.", "")

    @property
    def turns(self) -> list[str]:
        return [body["content"] for body in self.saved if body["collection"] == "observation"]


class Conversation:
    """A session whose transcript grows as the client writes blocks."""

    def __init__(self, client: str, path: Path) -> None:
        self.client = client
        self.path = path

    def write(self, blocks: int) -> None:
        lines = [line for block in list(_blocks(self.client))[:blocks] for line in block]
        self.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")

    def stop(self, turn: int) -> None:
        name, _, answer = TURNS[turn]
        match self.client:
            case "copilot":
                payload: dict[str, Any] = {"sessionId": "s", "transcriptPath": str(self.path)}
                payload |= {"timestamp": turn + 1}
            case "codex":
                payload = {"session_id": "s", "transcript_path": str(self.path), "turn_id": name}
                payload |= {"last_assistant_message": answer}
            case _:
                payload = {"session_id": "s", "transcript_path": str(self.path), "prompt_id": name}
                payload |= {"last_assistant_message": answer}
        self.event(STOPS[self.client], payload)

    def end(self) -> None:
        self.event(ENDS[self.client], {"sessionId": "s"} if self.client == "copilot" else {"session_id": "s"})

    def event(self, event: str, payload: dict[str, Any]) -> None:
        assert handle(event, self.client, payload, namespaces=["n"], socket="", remember=True) == {}


def _blocks(client: str) -> Iterator[list[dict[str, Any]]]:
    for at, (name, prompt, answer) in enumerate(TURNS):
        match client:
            case "copilot":
                ended = {"hookType": "agentStop", "input": {"timestamp": at + 1}}
                yield [{"type": "user.message", "data": {"content": prompt}}]
                yield [
                    {"type": "assistant.message", "data": {"content": answer}},
                    {"type": "hook.start", "data": ended},
                ]
            case "codex":
                for kind, text in (("UserMessage", prompt), ("AgentMessage", answer)):
                    item = {"type": kind, "content": [{"type": "text", "text": text}]}
                    payload = {"type": "item_completed", "turn_id": name, "item": item}
                    yield [{"type": "event_msg", "payload": payload}]
            case _:
                yield [{"type": "user", "promptId": name, "message": {"role": "user", "content": prompt}}]
                said = [{"type": "text", "text": answer}]
                yield [{"type": "assistant", "message": {"role": "assistant", "content": said}}]


def _wanted() -> list[str]:
    return [f"User: {prompt}\n\nAssistant: {answer}" for _, prompt, answer in TURNS]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Memory:
    """Do not wait for the transcript: what is missing is written later."""
    found = Memory()
    monkeypatch.setattr(capture, "ask", found.ask)
    monkeypatch.setattr(capture, "_WRITING_S", 0.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return found


def _orders() -> list[tuple[int, ...]]:
    """Draw how much is written at the end of each turn: at most that turn, and never less than before."""
    spans = [range(2 * (turn + 1) + 1) for turn in range(len(TURNS))]
    return [order for order in product(*spans) if list(order) == sorted(order)]


@pytest.mark.parametrize("client", STOPS)
def test_whenever_it_is_written_each_turn_is_saved_once_with_its_own_answer(
    client: str, memory: Memory, tmp_path: Path
) -> None:
    for number, order in enumerate(_orders()):
        conversation = Conversation(client, tmp_path / f"{number}.jsonl")
        memory.__init__()  # type: ignore[misc]
        for turn, written in enumerate(order):
            conversation.write(written)
            conversation.stop(turn)
        conversation.write(BLOCKS)
        conversation.end()
        conversation.end()
        assert sorted(memory.turns) == sorted(_wanted()), order
        assert _notes(client) == [], order


@pytest.mark.parametrize("client", STOPS)
@pytest.mark.parametrize("away", [(True, False, False), (False, True, True), (True, True, True)])
def test_a_turn_that_ends_while_the_daemon_is_away_is_saved_when_it_is_back(
    client: str, away: tuple[bool, ...], memory: Memory, tmp_path: Path
) -> None:
    conversation = Conversation(client, tmp_path / "t.jsonl")
    for turn, memory.is_away in enumerate(away):
        conversation.write(2 * turn + 2)
        conversation.stop(turn)
    memory.is_away = False
    conversation.end()
    assert sorted(memory.turns) == sorted(_wanted())


def test_an_end_that_is_reported_twice_is_saved_once(memory: Memory, tmp_path: Path) -> None:
    conversation = Conversation("claude-code", tmp_path / "t.jsonl")
    conversation.write(2)
    conversation.stop(0)
    conversation.stop(0)
    assert memory.turns == _wanted()[:1]


def test_a_turn_that_two_clients_report_is_saved_once_in_both_parts(memory: Memory, tmp_path: Path) -> None:
    told, answer = "We deploy on Tuesdays only.", "Noted: on Tuesdays only, because Rosa is away on Mondays."
    for client in ("claude-code", "codex", "claude-code"):
        conversation = Conversation(client, tmp_path / "t.jsonl")
        said = {"type": "assistant", "message": {"content": [{"type": "text", "text": answer}]}}
        lines = [{"type": "user", "promptId": "p1", "message": {"content": told}}, said]
        conversation.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        about = {
            "session_id": "s",
            "transcript_path": str(conversation.path),
            "last_assistant_message": answer,
        }
        conversation.event("Stop", about | {"prompt_id": "p1"})
    assert memory.turns == [f"User: {told}", f"Assistant: {answer}"]
    assert len({(body["turn"], body["agent"]) for body in memory.saved}) == 1


def test_a_turn_that_is_caught_up_with_more_of_its_transcript_is_saved_once(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = Conversation("claude-code", tmp_path / "t.jsonl")
    conversation.write(2)
    conversation.stop(0)
    monkeypatch.setattr(capture, "_TAIL_BYTES", 150)
    conversation.stop(0)
    assert memory.turns == _wanted()[:1]
    assert [body["own_words"] for body in memory.saved] == [True]


def test_a_session_saves_no_turn_of_another_one(memory: Memory, tmp_path: Path) -> None:
    conversation = Conversation("codex", tmp_path / "t.jsonl")
    conversation.write(0)
    conversation.stop(0)
    conversation.write(2)
    conversation.event("SessionEnd", {"session_id": "another"})
    assert memory.turns == []
    conversation.end()
    assert memory.turns == _wanted()[:1]


def test_a_turn_that_is_refused_is_not_tried_for_ever(memory: Memory, tmp_path: Path) -> None:
    conversation = Conversation("claude-code", tmp_path / "t.jsonl")
    conversation.write(0)
    conversation.stop(0)
    conversation.write(2)
    memory.refuses = True
    conversation.end()
    assert _notes("claude-code") == []


def test_a_home_that_cannot_be_written_only_loses_the_turn(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder", "utf-8")
    conversation = Conversation("claude-code", tmp_path / "t.jsonl")
    conversation.write(0)
    conversation.stop(0)
    conversation.write(2)
    conversation.end()
    assert memory.turns == []


@pytest.mark.parametrize("written", [0, 1])
def test_a_turn_that_is_being_written_is_waited_for(
    written: int, memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = Conversation("copilot", tmp_path / "t.jsonl")
    conversation.write(written)
    monkeypatch.setattr(capture, "_WRITING_S", 60.0)
    monkeypatch.setattr("agentctx.agents.hooks.capture.time.sleep", lambda _: conversation.write(2))
    conversation.stop(0)
    assert memory.turns == _wanted()[:1]


def test_a_client_without_names_of_turns_saves_no_answer_of_an_earlier_prompt(
    memory: Memory, tmp_path: Path
) -> None:
    conversation = Conversation("claude-code", tmp_path / "t.jsonl")
    conversation.write(2)
    event = {"session_id": "s", "transcript_path": str(conversation.path)}
    conversation.event("Stop", event | {"last_assistant_message": TURNS[2][2]})
    assert memory.turns == [f"Assistant: {TURNS[2][2]}"]


def test_a_long_turn_is_read_from_its_prompt(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "_TAIL_BYTES", 100)
    monkeypatch.setattr(capture, "_WRITING_S", 60.0)
    conversation = Conversation("claude-code", tmp_path / "t.jsonl")
    conversation.write(2)
    conversation.stop(0)
    assert memory.turns == _wanted()[:1]


def test_old_notes_are_dropped_with_the_next_one(tmp_path: Path) -> None:
    notes = MissedTurns(tmp_path / "notes")
    old, new = (MissedTurn("codex", session, "t", "/t.jsonl", "n") for session in ("old", "new"))
    notes.add(old)
    (path,) = notes.folder.iterdir()
    long_ago = path.stat().st_mtime - MAX_AGE_S - 1
    os.utime(path, (long_ago, long_ago))
    assert notes.of_session("codex", "old") == []
    notes.add(new)
    assert [each.name for each in notes.folder.iterdir()] != [path.name]
    assert notes.of_session("codex", "new") == [new]


def test_a_note_that_is_damaged_is_none(tmp_path: Path) -> None:
    notes = MissedTurns(tmp_path / "notes")
    notes.add(MissedTurn("codex", "s", "t", "/t.jsonl", "n"))
    (path,) = notes.folder.iterdir()
    path.write_text('["codex"', "utf-8")
    assert notes.of_session("codex", "s") == []


def _notes(client: str) -> list[MissedTurn]:
    return MissedTurns.of_user().of_session(client, "s")
