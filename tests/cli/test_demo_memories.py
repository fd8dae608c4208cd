from pathlib import Path

import pytest

from agentctx.cli.demo import wait_for_model
from agentctx.cli.demo_daemon import DemoDaemon
from agentctx.cli.demo_memories import BY_WORD, FOR_AN_LLM, IN_OTHER_WORDS, MEMORIES, DemoQuestion
from agentctx.client.sync_client import Client
from agentctx.wire import COLLECTIONS

CONVINCING = 0.5
"""Of passages shown with this figure, every second one is right."""


@pytest.mark.process
def test_every_right_answer_comes_first_with_a_convincing_figure(tmp_path: Path) -> None:
    """With the embedded model, as `make demo` shows them, and the pictures."""
    with DemoDaemon(tmp_path) as daemon, Client(daemon.socket) as client:
        daemon.wait_ready(client)
        ids = {
            name: client.save(memory.collection, memory.content, **memory.fields).id
            for name, memory in MEMORIES.items()
        }
        client.drain(60)
        wait_for_model(client)
        for question in (*IN_OTHER_WORDS, FOR_AN_LLM):
            first, *others = client.search(question.text, limit=3).results
            assert first.id == ids[question.answer], question
            assert first.relevance >= CONVINCING, question
            assert all(other.relevance < first.relevance / 2 for other in others), question


@pytest.mark.parametrize("question", [*BY_WORD, *IN_OTHER_WORDS, FOR_AN_LLM])
def test_every_answer_is_saved(question: DemoQuestion) -> None:
    assert question.answer in MEMORIES


@pytest.mark.parametrize("question", BY_WORD)
def test_the_keywords_occur_in_only_one_memory(question: DemoQuestion) -> None:
    holding = [
        name
        for name, memory in MEMORIES.items()
        if all(word in f"{memory.content} {memory.fields}" for word in question.text.split())
    ]

    assert holding == [question.answer]


def test_all_collections_are_shown() -> None:
    assert {memory.collection for memory in MEMORIES.values()} == set(COLLECTIONS)
