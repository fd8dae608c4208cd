import json
from pathlib import Path

import pytest

from agentctx_importers.letta import SOURCE
from agentctx_importers.records import Unreadable
from agentctx_importers_tests.reading import records_of, sample_records


def test_blocks_are_knowledge_and_messages_observations(tmp_path: Path) -> None:
    block, message = sample_records("letta", SOURCE, tmp_path)
    assert (block.key, block.content) == ("letta/memo/human", "Ann likes trains.")
    assert (message.content, message.session, message.fields) == (
        ("My name is Ann.", "letta/memo", {"part": "prompt"})
    )


def test_the_older_form_and_the_folder_of_letta_code(tmp_path: Path) -> None:
    blocks = [{"label": "human", "value": "Ann."}, {"label": "persona", "value": "Kind."}]
    (tmp_path / "old.af").write_text(json.dumps({"name": "old", "core_memory": blocks, "messages": []}))
    memory = tmp_path / "agent-1" / "memory"
    memory.mkdir(parents=True)
    (memory / "human.md").write_text("---\ndescription: x\n---\nLikes trains.\n")
    found = {each.key: each.content for each in records_of(SOURCE, tmp_path)}
    assert found == {
        "letta/old/human": "Ann.",
        "letta/old/persona": "Kind.",
        "letta/agent-1/memory/human": "Likes trains.",
    }


@pytest.mark.parametrize("text", ["[]", "{}", '{"agents": []}', "text"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.af").write_text(text)
    with pytest.raises(Unreadable):
        list(SOURCE.read(tmp_path / "a.af"))
