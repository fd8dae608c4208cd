"""A small memory of each kind, and how many entries it has."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentctx_importers.front_matter import written

FIXTURES: Final = Path(__file__).with_name("fixtures")
SESSION: Final = "551e729c-8750-49fa-a353-acfdfbff5147"
TIME: Final = "2026-01-02T03:04:05.678Z"
TIME_MS: Final = 1_767_323_045_678
FACT: Final = "The deploy window is on Tuesday at nine; Rosa has the key."
ASKED: Final = "Which port does the proxy use?"
TOLD: Final = "The proxy listens on 8443, because 443 is taken by the old gateway."


class Sample(NamedTuple):
    """`make` writes the memory into a folder and returns the path to import."""

    make: Callable[[Path], Path]
    entries: int


def write_lines(file: Path, *values: Any) -> Path:
    file.write_text("".join(f"{json.dumps(each)}\n" for each in values), encoding="utf-8")
    return file


def _rules(folder: Path) -> Path:
    (folder / "CLAUDE.md").write_text("# Build\n\nUse make.\n\n## Tests\n\nRun them with pytest.\n")
    (folder / ".cursor" / "rules").mkdir(parents=True)
    (folder / ".cursor" / "rules" / "style.mdc").write_text(
        "---\ndescription: Style\nglobs: '*.py'\n---\nNo one-letter names.\n"
    )
    return folder


def _server_memory(folder: Path) -> Path:
    return write_lines(
        folder / "memory.jsonl",
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Likes trains", "Is 40"]},
        {"type": "entity", "name": "Basel", "entityType": "city", "observations": ["On the Rhine"]},
        {"type": "relation", "from": "Ann", "to": "Basel", "relationType": "lives in"},
    )


def _markdown(folder: Path) -> Path:
    for number in (1, 2):
        head = {
            "type": "knowledge",
            "id": f"01a201d0-1506-73cf-bf84-00000000000{number}",
            "namespace": "default",
            "key": f"window {number}",
            "created": "2026-01-01T00:00:00.000Z",
            "generated": {"by": "codex", "at": "2026-01-02T00:00:00.000Z"},
        }
        (folder / f"{number}.md").write_text(f"{written(head)}\nTuesdays.\n", "utf-8")
    (folder / "index.md").write_text("# Index\n")
    return folder


def _mem0(folder: Path) -> Path:
    return FIXTURES / "mem0"


def _basic_memory(folder: Path) -> Path:
    """What basic-memory 0.24.1 wrote."""
    return FIXTURES / "basic-memory"


def _obsidian(folder: Path) -> Path:
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian" / "plugin.md").write_text("Not a note.")
    (folder / "daily").mkdir()
    (folder / "daily" / "2026-01-02.md").write_text("---\ntags: log, work\n---\nMet [[Ann]]. #people/ann\n")
    (folder / "Ann.md").write_text("\ufeff---\r\naliases: [Anna]\r\ndate: 2026-01-01\r\n---\r\n# Ann\r\n")
    return folder


def _langgraph(folder: Path) -> Path:
    return FIXTURES / "langgraph.db"


def _mcp_memory_service(folder: Path) -> Path:
    return FIXTURES / "mcp-memory-service.db"


def chatgpt_node(parent: str | None, role: str, *parts: Any, time: float | None = None, **more: Any) -> Any:
    content = {"content_type": "text", "parts": list(parts)}
    message = {"author": {"role": role}, "content": content, "create_time": time, "metadata": {}, **more}
    return {"parent": parent, "message": message}


def chatgpt_conversation() -> dict[str, Any]:
    return {
        "conversation_id": "c1",
        "title": "Trains",
        "create_time": 1767225600.0,
        "current_node": "4",
        "mapping": {
            "root": {"parent": None, "message": None},
            "1": chatgpt_node("root", "system", "You are helpful."),
            "2": chatgpt_node("1", "user", "Which train?", time=1767225601.5),
            "3": chatgpt_node("2", "assistant", "The one at noon.", time=1767225602.0),
            "4": chatgpt_node("2", "assistant", "The one at one.", {"asset": "x"}, time=1767225603.0),
        },
    }


def _chatgpt(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/conversations.json", json.dumps([chatgpt_conversation()]))
        archive.writestr("export/user.json", "{}")
    return folder / "export.zip"


def _claude(folder: Path) -> Path:
    messages = [
        {"uuid": "m1", "sender": "human", "text": "Which train?", "created_at": "2026-01-01T00:00:01Z"},
        {"uuid": "m2", "sender": "assistant", "text": "", "content": [{"type": "text", "text": "At noon."}]},
        {"uuid": "m3", "sender": "assistant", "content": [{"type": "tool_use", "name": "x"}]},
    ]
    chat = {"uuid": "c1", "name": "Trains", "created_at": "2026-01-01T00:00:00Z", "chat_messages": messages}
    memory = {
        "conversations_memory": "**Work**\n# Home\nLikes trains.",
        "project_memories": {"p1": "Uses uv."},
    }
    documents = [{"uuid": "d1", "filename": "a.md", "content": "Text.", "created_at": "2026-01-01T00:00:00Z"}]
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([chat]))
        archive.writestr("memories.json", json.dumps([memory]))
        archive.writestr("projects.json", json.dumps([{"uuid": "p1", "name": "P", "docs": documents}]))
    return folder / "data.zip"


def write_database(file: Path, script: str) -> Path:
    connection = sqlite3.connect(file)
    connection.executescript(script)
    connection.close()
    return file


CLAUDE_MEM = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL,
  memory_session_id TEXT UNIQUE, project TEXT NOT NULL, started_at TEXT, started_at_epoch INTEGER);
CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
  project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT,
  concepts TEXT, files_read TEXT, files_modified TEXT,
  prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
  project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
INSERT INTO sdk_sessions VALUES (1, 'session-1', 'm-1', 'shop', '2026-01-01', 1767225600000);
INSERT INTO observations VALUES (1, 'm-1', 'shop', NULL, 'bugfix', 'Retry added', 'For 429',
  '["Waits a second", "At most five times"]', 'The client retries.', '["http", "retry"]', '[]', '[]', 1, 0,
  '2026-01-01T00:00:00Z', 1767225600000);
INSERT INTO observations VALUES (2, 'm-2', 'shop', 'Old text', 'change', NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, 0, '2026-01-01T00:00:01Z', 1767225601000);
INSERT INTO session_summaries VALUES (1, 'm-1', 'shop', 'Fix the client', NULL, 'Vendors limit rates',
  'Retry', '', '2026-01-01T00:00:02Z', 1767225602000);
"""
"""The columns that matter of the tables of claude-mem 13.25.3."""

MEMPALACE = """
CREATE TABLE collections (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, dimension INTEGER,
  created_at TEXT NOT NULL);
CREATE TABLE documents (collection_id INTEGER NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
  metadata_json TEXT NOT NULL, embedding BLOB NOT NULL, dim INTEGER NOT NULL, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, PRIMARY KEY (collection_id, id));
INSERT INTO collections VALUES (1, 'mempalace_drawers', 2, '2026-01-01'),
  (2, 'mempalace_closets', 2, '2026-01-01');
INSERT INTO documents VALUES (1, 'd1', 'The kiln is at 900 degrees.',
  '{"wing": "pottery", "room": "kiln", "filed_at": "2026-01-02T00:00:00", "added_by": "ann"}', x'00', 2,
  '2026-01-01', '2026-01-01'), (2, 'c1', 'An index.', '{}', x'00', 2, '2026-01-01', '2026-01-01');
"""
FACTS = """
CREATE TABLE entities (id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT, properties TEXT, created_at TEXT);
CREATE TABLE triples (id TEXT PRIMARY KEY, subject TEXT NOT NULL, predicate TEXT NOT NULL,
  object TEXT NOT NULL, valid_from TEXT, valid_to TEXT, confidence REAL DEFAULT 1.0, extracted_at TEXT);
INSERT INTO entities VALUES ('ann', 'Ann', 'person', '{}', '2026-01-01');
INSERT INTO triples VALUES ('t1', 'ann', 'works_at', 'kiln', NULL, NULL, 1.0, '2026-01-03 00:00:00');
INSERT INTO triples VALUES ('t2', 'ann', 'works_at', 'shop', NULL, '2025-01-01', 1.0, '2025-01-01 00:00:00');
"""
"""The tables of mempalace 3.11.0."""


def _claude_mem(folder: Path) -> Path:
    write_database(folder / "claude-mem.db", CLAUDE_MEM)
    return folder


def _mempalace(folder: Path) -> Path:
    write_database(folder / "sqlite_exact.sqlite3", MEMPALACE)
    write_database(folder / "knowledge_graph.sqlite3", FACTS)
    return folder


def _chroma(folder: Path) -> Path:
    """What the real Chroma writes."""
    import chromadb

    client = chromadb.PersistentClient(str(folder))
    notes = client.get_or_create_collection("notes", embedding_function=None)
    notes.add(
        ids=["a", "b"],
        documents=["Trains are late.", "Planes are loud."],
        metadatas=[{"source": "a.md", "page": 3, "draft": True}, {"weight": 0.5}],
        embeddings=[[0.1, 0.2], [0.3, 0.4]],
    )
    client.get_or_create_collection("empty", embedding_function=None)
    return folder


def letta_agent() -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": "My name is Ann."}]}
    return {
        "agents": [
            {
                "name": "memo",
                "block_ids": ["block-0"],
                "messages": [{"role": "system", "content": "You are memo."}, {"id": "message-1", **message}],
            }
        ],
        "blocks": [{"id": "block-0", "label": "human", "value": "Ann likes trains."}],
    }


def _letta(folder: Path) -> Path:
    (folder / "memo.af").write_text(json.dumps(letta_agent()))
    return folder / "memo.af"


def _claude_code(folder: Path) -> Path:
    return write_lines(
        folder / f"{SESSION}.jsonl", *claude_turn("p1", FACT, "Noted."), *claude_turn("p2", ASKED, TOLD)
    )


def _codex(folder: Path) -> Path:
    return write_lines(folder / "rollout-1.jsonl", codex_start(), *codex_turn("t1", ASKED, TOLD))


def _gemini(folder: Path) -> Path:
    return write_lines(
        folder / "session-1.jsonl",
        {"sessionId": SESSION, "projectHash": "f9", "startTime": TIME, "lastUpdated": TIME, "kind": "main"},
        {"$set": {"messages": [{"id": "1", "type": "user", "content": [{"text": "<session_context>"}]}]}},
        {"id": "2", "timestamp": TIME, "type": "user", "content": [{"text": ASKED}]},
        {"$set": {"lastUpdated": TIME}},
        {"id": "3", "timestamp": TIME, "type": "gemini", "content": TOLD, "thoughts": []},
    )


def _copilot(folder: Path) -> Path:
    return write_lines(
        folder / "events.jsonl",
        {
            "type": "session.start",
            "data": {"sessionId": SESSION, "context": {"cwd": "/shop"}},
            "timestamp": TIME,
        },
        {"type": "user.message", "data": {"content": ASKED}, "timestamp": TIME},
        {"type": "assistant.message", "data": {"content": TOLD}, "timestamp": TIME},
        {"type": "session.compaction_complete", "data": {"summaryContent": TOLD}, "timestamp": TIME},
    )


OPENCODE: Final = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, directory text NOT NULL,
  title text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
"""
"""The columns that matter of the tables of opencode 1.18.33."""


def opencode_database(file: Path, *messages: tuple[dict[str, Any], list[Any]], **session: Any) -> Path:
    """Write a session of these messages with their parts."""
    about = {"id": "ses_1", "parent": None, "folder": "/shop", **session}
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(OPENCODE.replace("TABLE", "TABLE IF NOT EXISTS"))
        values = (about["id"], about["parent"], about["folder"], TIME_MS)
        database.execute("INSERT INTO session VALUES (?, 'global', ?, ?, 't', ?4, ?4)", values)
        for number, (message, parts) in enumerate(messages):
            name = f"msg_{about['id']}_{number}"
            row = (name, about["id"], message.get("time", {}).get("created", 0), json.dumps(message))
            database.execute("INSERT INTO message VALUES (?, ?, ?3, ?3, ?4)", row)
            for at, part in enumerate(parts):
                row = (f"{name}_{at}", name, about["id"], json.dumps(part))
                database.execute("INSERT INTO part VALUES (?1, ?2, ?3, 0, 0, ?4)", row)
    return file


def opencode_message(role: str, *parts: Any, at: int = 0, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    """A message `at` milliseconds; texts become parts."""
    known = [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]
    return {"role": role, "time": {"created": TIME_MS + at}, **more}, known


def _opencode(folder: Path) -> Path:
    return opencode_database(
        folder / "opencode.db",
        opencode_message("user", FACT),
        opencode_message("assistant", "Noted.", at=1),
        opencode_message("user", ASKED, {"type": "text", "text": "From memory", "synthetic": True}, at=2),
        opencode_message("assistant", TOLD, at=3),
    )


def claude_turn(name: str, prompt: str, answer: str, **more: Any) -> list[dict[str, Any]]:
    about = {"sessionId": SESSION, "cwd": "/shop", "isSidechain": False, "timestamp": TIME, **more}
    said = [{"type": "text", "text": answer}]
    return [
        {"type": "user", "promptId": name, "message": {"role": "user", "content": prompt}, **about},
        {"type": "attachment", "attachment": {"type": "date"}, **about},
        {"type": "assistant", "message": {"role": "assistant", "content": said}, **about},
    ]


def codex_start(**more: Any) -> dict[str, Any]:
    return {"type": "session_meta", "payload": {"id": SESSION, "cwd": "/shop", "source": "exec", **more}}


def codex_turn(name: str, prompt: str, answer: str) -> list[dict[str, Any]]:
    items = [
        {"type": kind, "content": [{"type": "text", "text": text}]}
        for kind, text in zip(("UserMessage", "AgentMessage"), (prompt, answer), strict=True)
    ]
    payloads = [{"type": "item_completed", "turn_id": name, "item": item} for item in items]
    return [{"timestamp": TIME, "type": "event_msg", "payload": each} for each in payloads]


SAMPLES: Final[Mapping[str, Sample]] = {
    "basic-memory": Sample(_basic_memory, 1),
    "chatgpt": Sample(_chatgpt, 2),
    "chroma": Sample(_chroma, 2),
    "claude": Sample(_claude, 6),
    "claude-code": Sample(_claude_code, 2),
    "claude-mem": Sample(_claude_mem, 3),
    "codex": Sample(_codex, 1),
    "copilot": Sample(_copilot, 2),
    "gemini": Sample(_gemini, 1),
    "langgraph": Sample(_langgraph, 2),
    "letta": Sample(_letta, 2),
    "markdown": Sample(_markdown, 2),
    "mcp-memory-service": Sample(_mcp_memory_service, 2),
    "mem0": Sample(_mem0, 4),
    "mempalace": Sample(_mempalace, 2),
    "obsidian": Sample(_obsidian, 2),
    "opencode": Sample(_opencode, 2),
    "rules": Sample(_rules, 3),
    "server-memory": Sample(_server_memory, 2),
}
