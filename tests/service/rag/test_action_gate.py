"""What is given at the moment of action, on the real storage and without a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentctx.daemon.build import Core
from agentctx.errors import InvalidInput, TooLarge
from agentctx.service.rag.action_gate import MAX_OPERATION_WORDS, MAX_QUERY_WORDS, AskedAction
from agentctx.wire import ContextReply, ContextRequest
from tests.running_core import ME, running_core, save

RULE = "Everything under shop/vendor/ is copied from the agency. No edits of ours there."
FIX = "Start the tunnel first."


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    async with running_core(tmp_path, None) as running:
        await save(running, key="rule.vendor", content=RULE)
        await save(
            running,
            "learning",
            trigger="psql on the reporting host report-1",
            error_pattern="connection to report-1, port 6433 failed: Connection refused",
            fix=FIX,
        )
        await save(running, key="note", content="The vendor of the shop sends an invoice each month.")
        yield running


async def ask(core: Core, query: str, **fields: Any) -> ContextReply:
    return await core.questions.context(ContextRequest(query=query, position="tail", **fields), ME)


async def test_a_rule_is_given_before_the_edit_that_it_concerns(core: Core) -> None:
    reply = await ask(core, "/p/shop/vendor/a.css", action="write", folder="/p")
    assert [hit.source_id for hit in reply.results] == ["rule.vendor"]
    assert RULE in reply.block
    assert reply.degraded is None, "nothing is missing: meaning is not asked for"


@pytest.mark.parametrize(
    ("query", "action"),
    [("/p/shop/vendor/a.css", "read"), ("/p/shop/a.css", "write"), ("ls -l", "run"), ("-", "run")],
)
async def test_nothing_is_given_before_other_actions(core: Core, query: str, action: Any) -> None:
    assert (await ask(core, query, action=action, folder="/p")).block == ""


async def test_a_text_is_given_once_a_conversation_until_it_restarts(core: Core) -> None:
    asked = {"query": "/p/shop/vendor/a.css", "action": "write", "folder": "/p", "conversation": "one"}
    assert (await ask(core, **asked)).block
    assert not (await ask(core, **asked)).block
    assert (await ask(core, **asked, restarted=True)).block


async def test_a_learning_is_given_after_the_failure_that_it_describes(core: Core) -> None:
    refused = "psql: error: connection to report-1, port 6433 failed: Connection refused"
    reply = await ask(core, "make report", action="run", error=refused, collections=["learning"])
    assert FIX in reply.block
    other = await ask(core, "make report", action="run", error="make: no rule to make target", folder="/p")
    assert other.block == ""


async def test_folder_and_error_need_an_action(core: Core) -> None:
    with pytest.raises(InvalidInput, match="belong to an action"):
        await ask(core, "make", folder="/p")
    with pytest.raises(TooLarge, match="The error has"):
        await ask(core, "make", action="run", error="x" * 100_000)


def test_few_words_are_searched_for() -> None:
    asked = AskedAction.of("run", "rm " + " ".join(f"a/path/file{n}.txt" for n in range(99)))
    assert len(asked.query.split()) <= MAX_QUERY_WORDS + MAX_OPERATION_WORDS
    assert "delete" in asked.query.split()
    assert AskedAction.of("run", "").query == "-"
    assert AskedAction.of("run", "make", error="\n").query == "-"
