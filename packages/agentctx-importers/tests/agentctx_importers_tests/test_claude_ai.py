import json
from pathlib import Path

from agentctx_importers.claude_ai import SOURCE
from agentctx_importers.records import Record, RefusedItem
from agentctx_importers_tests.reading import records_of, sample_records


def test_conversations_memories_and_documents(tmp_path: Path) -> None:
    prompt, answer, *others = sample_records("claude", SOURCE, tmp_path)
    assert (prompt.content, answer.content) == ("Which train?", "At noon.")
    assert prompt.fields == {"turn": "m1", "part": "prompt"}
    assert answer.fields == {"turn": "m1", "part": "answer"}
    assert answer.created == prompt.created  # it has none of its own
    assert [(each.key, each.content) for each in others] == [
        ("claude.ai/memory#", "**Work**"),
        ("claude.ai/memory#Home", "Home\n\nLikes trains."),
        ("claude.ai/project/p1#", "Uses uv."),
        ("claude.ai/P/a.md", "Text."),
    ]


def test_memories_in_a_document_that_is_one_object(tmp_path: Path) -> None:
    name = "0a1b2c3d-0000-0000-0000-000000000000.json"
    memory = {
        "account_uuid": "x",
        "conversations_memory": "Likes trains.",
        "project_memories": {"p": "Uses uv."},
    }
    (tmp_path / name).write_text(json.dumps(memory))
    assert [each.content for each in records_of(SOURCE, tmp_path)] == ["Likes trains.", "Uses uv."]


def test_a_conversation_that_is_malformed_is_refused_and_the_next_one_read(tmp_path: Path) -> None:
    message = {"sender": "human", "text": "Hello.", "content": None}
    chats = [3, {"chat_messages": []}, {"uuid": "1", "chat_messages": [None, {"sender": "x"}, message]}]
    (tmp_path / "conversations.json").write_text(json.dumps(chats))
    items = list(SOURCE.read(tmp_path))
    assert [type(each) for each in items] == [RefusedItem, RefusedItem, Record]
