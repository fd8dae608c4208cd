import json
from pathlib import Path
from typing import Any

import pytest

from agentctx_importers.chatgpt import SOURCE, branch
from agentctx_importers.records import Item, Record, RefusedItem
from agentctx_importers_tests.reading import sample_records
from agentctx_importers_tests.samples import chatgpt_conversation, chatgpt_node


def read(folder: Path, *conversations: Any) -> list[Item]:
    file = folder / "conversations.json"
    file.write_text(json.dumps(conversations), "utf-8")
    return list(SOURCE.read(file))


def test_the_current_branch_is_read_and_its_parts_are_a_turn(tmp_path: Path) -> None:
    prompt, answer = sample_records("chatgpt", SOURCE, tmp_path)
    assert (prompt.content, answer.content) == ("Which train?", "The one at one.")
    assert (prompt.session, prompt.agent, prompt.tags) == ("c1", "chatgpt", ("chatgpt", "Trains"))
    assert prompt.fields == {"turn": "2", "part": "prompt"}
    assert answer.fields == {"turn": "2", "part": "answer"}
    assert (prompt.created, answer.created) == (1767225601500, 1767225603000)
    assert answer.source == "https://chatgpt.com/c/c1"


HIDDEN: dict[str, Any] = {"metadata": {"is_visually_hidden_from_conversation": True}}


@pytest.mark.parametrize(
    "node",
    [
        chatgpt_node("2", "assistant", "hidden", **HIDDEN),
        chatgpt_node("2", "tool", "result"),
        chatgpt_node("2", "assistant", "search()", recipient="browser"),
        chatgpt_node("2", "assistant", {"asset": "x"}),
        chatgpt_node("2", "assistant", "  "),
        {
            "parent": "2",
            "message": {"author": {"role": "user"}, "content": {"content_type": "code", "text": "x"}},
        },
        {"parent": "2", "message": {"author": None, "content": None}},
        {"parent": "2"},
    ],
)
def test_what_people_do_not_see_is_not_read(node: Any, tmp_path: Path) -> None:
    conversation = chatgpt_conversation()
    conversation["mapping"]["4"] = node
    found = read(tmp_path, conversation)
    assert [each.content for each in found if isinstance(each, Record)] == ["Which train?"]
    assert len(found) == 1


def test_a_tree_that_is_a_circle_ends() -> None:
    nodes = {"a": {"parent": "b"}, "b": {"parent": "a"}}
    assert [name for name, _ in branch(nodes, "a")] == ["b", "a"]


def test_without_a_current_node_all_messages_are_read_by_time() -> None:
    nodes = chatgpt_conversation()["mapping"]
    names = [name for name, _ in branch(nodes, None)]
    assert names == ["root", "1", "2", "3", "4"]
    assert branch(nodes, "absent") == branch(nodes, None)


def test_memories_are_knowledge_and_other_documents_refused(tmp_path: Path) -> None:
    (tmp_path / "memories.json").write_text(
        json.dumps([{"id": "m1", "content": "Likes trains."}, {"x": 1}, 3])
    )
    (tmp_path / "user.json").write_text("{}")
    memory, *refused = SOURCE.read(tmp_path)
    assert isinstance(memory, Record)
    assert (memory.collection, memory.content) == ("knowledge", "Likes trains.")
    assert [type(each) for each in refused] == [RefusedItem, RefusedItem]


def test_a_conversation_without_id_or_messages_is_refused_and_the_next_one_read(tmp_path: Path) -> None:
    items = read(tmp_path, {"mapping": {}}, {"id": "x", "mapping": None}, chatgpt_conversation())
    assert [type(each) for each in items] == [RefusedItem, RefusedItem, Record, Record]
