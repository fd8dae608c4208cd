"""Sessions of older Gemini CLIs: one JSON document, in a folder that is named by a digest."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from agentctx_importers.gemini import TRANSCRIPTS
from agentctx_importers.records import Item, Record, RefusedItem
from agentctx_importers_tests.samples import ASKED, FACT, SESSION, TIME, TOLD, write_lines

OTHER = SESSION.replace("5", "6")
CALL = {"id": "c", "name": "read_file", "args": {"file_path": "a"}, "status": "success", "timestamp": TIME}


def document(session: str = SESSION, **more: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"id": "1", "timestamp": TIME, "type": "user", "content": FACT},
        {"id": "2", "timestamp": TIME, "type": "gemini", "content": "", "toolCalls": [CALL], "thoughts": []},
        {"id": "3", "timestamp": TIME, "type": "gemini", "content": TOLD, "model": "gemini-2.5-pro"},
        {"id": "4", "timestamp": TIME, "type": "info", "content": "Update successful!"},
        {"id": "5", "timestamp": TIME.replace("678", "679"), "type": "user", "content": ASKED},
        {"id": "6", "timestamp": TIME, "type": "gemini", "content": TOLD},
    ]
    return {"sessionId": session, "projectHash": "f", "startTime": TIME, "messages": messages, **more}


@pytest.fixture
def chats(home: Path) -> Path:
    folder = home / ".gemini" / "tmp" / sha256(str(home / "shop").encode()).hexdigest() / "chats"
    folder.mkdir(parents=True)
    (folder / f"session-2026-01-02T03-04-{SESSION[:8]}.json").write_text(json.dumps(document()))
    (folder.parent / "logs.json").write_text('[{"type": "user", "message": "Not a turn."}]')
    return folder


def read() -> list[Item]:
    return list(TRANSCRIPTS.read(TRANSCRIPTS.usual()[0]))


def records() -> list[Record]:
    return [each for each in read() if isinstance(each, Record)]


def test_a_document_has_the_turns_that_its_lines_would_have(chats: Path) -> None:
    found = records()
    assert [each.content.partition("\n")[0] for each in found] == [
        f"User: {FACT}",
        f"Assistant: {TOLD}",
        f"User: {ASKED}",
    ]
    assert {each.session for each in found} == {SESSION}
    file = next(chats.iterdir())
    about = {name: value for name, value in document().items() if name != "messages"}
    write_lines(file.with_suffix(".jsonl"), about, *document()["messages"])
    assert records() == found, "resumed by a newer version, which copies it"
    file.unlink()
    assert records() == found


def test_a_folder_named_by_a_digest_is_that_of_a_newer_copy(chats: Path, home: Path) -> None:
    shop = home / "shop"
    shop.mkdir()
    (shop / ".agentctx.toml").write_text('namespace = "shop-team"\n')
    assert {each.namespace for each in records()} == {None}
    copy = home / ".gemini" / "tmp" / "shop" / "chats"
    copy.mkdir(parents=True)
    (copy.parent / ".project_root").write_text(str(shop))
    for file in chats.iterdir():
        os.utime(copy.joinpath(file.name).write_bytes(file.read_bytes()) and copy / file.name)
    found = records()
    assert len(found) == 3
    assert len({each.namespace for each in found}) == 1
    assert None not in {each.namespace for each in found}


def test_subagents_and_damaged_documents_are_left_out(chats: Path) -> None:
    write_lines(chats / "session-2.json", document(OTHER, kind="subagent"))
    write_lines(chats / "session-3.json", document(OTHER.replace("6", "7"), messages=[7, None]))
    (chats / "session-4.json").write_text("[" * 5_000)
    found = read()
    assert {each.session for each in found if isinstance(each, Record)} == {SESSION}
    refused = [each.where for each in found if isinstance(each, RefusedItem)]
    assert len(refused) == 3
    assert str(chats / "session-4.json") in refused
