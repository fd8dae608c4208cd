"""The injector that adapter and proxy share, with any dialect."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from agentctx.errors import DaemonUnreachable
from agentctx.llm.conversation import ConversationMemory
from agentctx.llm.dialects.registry import DIALECTS, find_dialect
from agentctx.llm.injector import FailureLog, Injector
from agentctx.llm.scope import Scope
from agentctx.wire.protocol import InjectionPosition
from tests.llm.dialects.samples import FIRST, RESULT, SAMPLES, SECOND
from tests.llm.sources import Answering, Failing


@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_one_injector_serves_every_api(name: str) -> None:
    source = Answering()
    injector = Injector(source, position="tail")
    dialect, samples = DIALECTS[name], SAMPLES[name]
    bodies = [samples.asked(), samples.tool_round(), samples.continued()]
    prepared = [await injector.prepare(dialect, body, Scope()) for body in bodies]
    assert [each.outcome for each in prepared] == ["new", "again", "new"]
    first, second = f"block for {FIRST}", f"block for {SECOND}"
    texts = [samples.user_texts(each.body) for each in prepared]
    assert texts == [[FIRST, first], [FIRST, first], [FIRST, first, SECOND, second]]
    assert [question.text for question in source.asked] == [FIRST, SECOND]
    assert prepared[0].context is not None
    assert prepared[1].context is None


@pytest.mark.parametrize("position", ["system", "tail"])
@pytest.mark.parametrize("name", sorted(DIALECTS))
async def test_a_fresh_injector_gives_a_tool_round_the_bytes_of_the_first_call(
    name: str, position: InjectionPosition
) -> None:
    dialect, samples = DIALECTS[name], SAMPLES[name]
    first = Injector(Answering(), position=position)
    await first.prepare(dialect, samples.asked(), Scope())
    seen = await first.prepare(dialect, samples.tool_round(), Scope())
    source = Answering()
    fresh = Injector(source, position=position)
    rounds = [await fresh.prepare(dialect, samples.tool_round(), Scope()) for _ in range(3)]
    assert [each.outcome for each in rounds] == ["new", "again", "again"]
    assert all(json.dumps(each.body) == json.dumps(seen.body) for each in rounds)
    (asked,) = source.asked
    assert asked.text == FIRST
    assert RESULT not in asked.present
    later = await fresh.prepare(dialect, samples.continued(), Scope())
    if position == "tail":
        assert samples.user_texts(later.body)[:2] == [FIRST, f"block for {FIRST}"]


async def test_a_conversation_that_was_dropped_from_memory_is_asked_for_again() -> None:
    source = Answering()
    injector = Injector(source, conversations=ConversationMemory(max_conversations=1))
    dialect, samples = DIALECTS["openai_chat"], SAMPLES["openai_chat"]
    first = await injector.prepare(dialect, samples.asked(), Scope(conversation="one"))
    await injector.prepare(dialect, samples.asked(), Scope(conversation="two"))
    again = await injector.prepare(dialect, samples.tool_round(), Scope(conversation="one"))
    assert again.outcome == "new"
    assert samples.system_of(again.body) == samples.system_of(first.body)


async def test_a_tool_round_of_a_turn_without_relevant_entries_asks_nothing() -> None:
    source = Answering(lambda _: "")
    injector = Injector(source)
    dialect, samples = DIALECTS["openai_chat"], SAMPLES["openai_chat"]
    bodies = [samples.asked(), samples.tool_round(), samples.tool_round()]
    prepared = [await injector.prepare(dialect, body, Scope()) for body in bodies]
    assert [each.outcome for each in prepared] == ["nothing_relevant", "no_question", "no_question"]
    assert prepared[2].body is bodies[2]
    assert len(source.asked) == 1


async def test_a_tool_round_asks_again_after_the_source_failed() -> None:
    conversations = ConversationMemory()
    dialect, samples = DIALECTS["openai_chat"], SAMPLES["openai_chat"]
    failing = Injector(Failing(DaemonUnreachable("nobody is there")), conversations=conversations)
    for body in (samples.asked(), samples.tool_round()):
        assert (await failing.prepare(dialect, body, Scope())).outcome == "daemon_unreachable"
    answering = Injector(Answering(), conversations=conversations)
    prepared = [await answering.prepare(dialect, samples.tool_round(), Scope()) for _ in range(2)]
    assert [each.outcome for each in prepared] == ["new", "again"]
    assert prepared[0].body == prepared[1].body


async def test_a_failure_removes_no_block() -> None:
    conversations = ConversationMemory()
    dialect, samples = DIALECTS["openai_chat"], SAMPLES["openai_chat"]
    answering = Injector(Answering(), conversations=conversations)
    first = await answering.prepare(dialect, samples.asked(), Scope())
    failing = Injector(Failing(DaemonUnreachable("nobody is there")), conversations=conversations)
    assert (await failing.prepare(dialect, samples.asked(), Scope())).body == first.body
    tools = await answering.prepare(dialect, samples.tool_round(), Scope())
    assert tools.outcome == "again"
    assert samples.system_of(tools.body) == samples.system_of(first.body)


async def test_the_source_gets_position_deadline_and_present_passages() -> None:
    source = Answering()
    injector = Injector(source, position="tail", deadline_s=7)
    body = SAMPLES["openai_chat"].asked()
    await injector.prepare(find_dialect("openai_chat"), body, Scope(session="s"))
    (asked,) = source.asked
    assert (asked.position, asked.deadline_s, asked.scope.session) == ("tail", 7, "s")
    assert FIRST in asked.present


async def test_only_replies_of_a_stateful_api_are_recorded() -> None:
    injector = Injector(Answering())
    chat, responses = find_dialect("openai_chat"), find_dialect("openai_responses")
    prepared = await injector.prepare(chat, SAMPLES["openai_chat"].asked(), Scope())
    assert not injector.replied(chat, prepared, Scope(), {"id": "r1"})
    prepared = await injector.prepare(responses, {"input": FIRST}, Scope())
    assert not injector.replied(responses, prepared, Scope(), {"type": "response.output_text.delta"})
    assert injector.replied(responses, prepared, Scope(), {"id": "r1", "object": "response"})


async def test_a_body_without_a_conversation_leaves_nothing_to_note() -> None:
    injector = Injector(Answering())
    dialect = find_dialect("openai_chat")
    prepared = await injector.prepare(dialect, {}, Scope())
    assert prepared.outcome == "no_question"
    assert injector.replied(dialect, prepared, Scope(), {})


async def test_a_failing_memory_does_not_affect_the_reply() -> None:
    class Forgetful(ConversationMemory):
        def link(self, reply_key: str, key: str, turn: str | None) -> None:
            raise OSError

    injector = Injector(Answering(), conversations=Forgetful())
    dialect = find_dialect("openai_responses")
    prepared = await injector.prepare(dialect, {"input": FIRST}, Scope())
    assert injector.replied(dialect, prepared, Scope(), {"id": "r1", "object": "response"})


async def test_injectors_that_share_failures_log_each_once(caplog: pytest.LogCaptureFixture) -> None:
    failures, dialect = FailureLog(), find_dialect("openai_chat")
    source = Failing(DaemonUnreachable("nobody is there"))
    structlog.reset_defaults()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            injector = Injector(source, failures=failures)
            await injector.prepare(dialect, SAMPLES["openai_chat"].asked(), Scope())
    assert len(caplog.records) == 1
