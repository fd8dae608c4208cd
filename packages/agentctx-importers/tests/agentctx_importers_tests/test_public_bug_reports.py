"""What users reported about other importers, rebuilt against ours. Each names the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctx_importers.chatgpt import SOURCE as CHATGPT
from agentctx_importers.claude_ai import SOURCE as CLAUDE
from agentctx_importers.notes import BASIC_MEMORY
from agentctx_importers_tests.reading import records_of
from agentctx_importers_tests.samples import chatgpt_conversation


def test_text_between_two_rules_at_the_start_is_not_lost(tmp_path: Path) -> None:
    """basicmachines-co/basic-memory#1451: the note was dropped from the index."""
    text = "---\n**OSTROWSKI LEGAL PLLC**\nCarmen Ostrowski, Esq.\n---\n\nWe demand payment.\n"
    (tmp_path / "letter.md").write_text(text)
    (note,) = records_of(BASIC_MEMORY, tmp_path)
    assert "OSTROWSKI LEGAL" in note.content
    assert "We demand payment." in note.content


def test_a_second_front_matter_is_read_as_well(tmp_path: Path) -> None:
    """basicmachines-co/basic-memory#1171 and #528: sync puts its own before the note's."""
    own = "---\npermalink: my/note\n---\n\n"
    text = "---\ntitle: The real title\ntags: [a]\ndate: 2026-01-01\n---\n\nBody.\n"
    (tmp_path / "note.md").write_text(own + text)
    (note,) = records_of(BASIC_MEMORY, tmp_path)
    assert (note.key, note.content) == ("my/note", "# The real title\n\nBody.")
    assert note.tags == ("basic-memory", "a")


@pytest.mark.parametrize(
    "title",
    [
        "Governance: Rootkeeper Manifest-Diff Prompt",
        "L2 Governance Core (Split: Core)",
        "*Italic*",
        "`C:\\agent\\new`",
        "[[A link]] and more",
        "@someone & 100%",
    ],
)
def test_a_title_that_is_not_yaml_blocks_nothing(title: str, tmp_path: Path) -> None:
    """basicmachines-co/basic-memory#408, garrytan/gbrain#4543: one such file stopped the whole sync."""
    (tmp_path / "a.md").write_text(f"---\ntitle: {title}\nlinks:\n- [[x]]suffix\n- [[y]]\n---\nBody.\n")
    (note,) = records_of(BASIC_MEMORY, tmp_path)
    assert note.content == f"# {title}\n\nBody."


@pytest.mark.parametrize("missing", ["create_time", "title", "current_node"])
def test_a_conversation_of_chatgpt_may_lack_what_others_have(missing: str, tmp_path: Path) -> None:
    """basicmachines-co/basic-memory#1276: `KeyError: 'create_time'`, and nothing was imported."""
    without = chatgpt_conversation()
    del without[missing]
    null = {**chatgpt_conversation(), missing: None, "conversation_id": "c2"}
    (tmp_path / "conversations.json").write_text(json.dumps([without, null]))
    found = records_of(CHATGPT, tmp_path)
    assert {each.session for each in found} == {"c1", "c2"}


def test_an_export_of_one_conversation_is_read_like_a_list_of_them(tmp_path: Path) -> None:
    """MemPalace/mempalace#2160 and #677: one form was read, the other became slices of JSON."""
    (tmp_path / "conversations.json").write_text(json.dumps(chatgpt_conversation()))
    assert [each.content for each in records_of(CHATGPT, tmp_path)] == ["Which train?", "The one at one."]
    messages = [{"sender": "human", "text": "Hello."}, {"sender": "assistant", "text": "Hi."}]
    chat = {"uuid": "c1", "name": "x", "chat_messages": messages}
    (tmp_path / "conversations.json").write_text(json.dumps(chat))
    assert [each.content for each in records_of(CLAUDE, tmp_path)] == ["Hello.", "Hi."]
