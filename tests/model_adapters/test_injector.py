"""What adapter and proxy share: one injector, any dialect."""

from __future__ import annotations

import logging

import pytest
import structlog

from agentctx.errors import DaemonUnreachable
from agentctx.model_adapters.conversation import RecentConversations
from agentctx.model_adapters.dialects.registry import DIALECTS, find_dialect
from agentctx.model_adapters.injector import Failures, Injector
from agentctx.model_adapters.scope import Scope
from tests.model_adapters.dialects.samples import FIRST, SAMPLES, SECOND
from tests.model_adapters.sources import Answering, Failing


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


async def test_the_source_is_told_position_deadline_and_what_is_there() -> None:
    source = Answering()
    injector = Injector(source, position="tail", deadline_s=7)
    body = SAMPLES["openai_chat"].asked()
    await injector.prepare(find_dialect("openai_chat"), body, Scope(session="s"))
    (asked,) = source.asked
    assert (asked.position, asked.deadline_s, asked.scope.session) == ("tail", 7, "s")
    assert FIRST in asked.present


async def test_only_replies_of_an_api_with_state_are_noted() -> None:
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


async def test_a_memory_that_fails_spoils_no_reply() -> None:
    class Forgetful(RecentConversations):
        def link(self, reply_key: str, key: str, turn: str | None) -> None:
            raise OSError

    injector = Injector(Answering(), conversations=Forgetful())
    dialect = find_dialect("openai_responses")
    prepared = await injector.prepare(dialect, {"input": FIRST}, Scope())
    assert injector.replied(dialect, prepared, Scope(), {"id": "r1", "object": "response"})


async def test_injectors_that_share_their_failures_tell_one_once(caplog: pytest.LogCaptureFixture) -> None:
    failures, dialect = Failures(), find_dialect("openai_chat")
    source = Failing(DaemonUnreachable("nobody is there"))
    structlog.reset_defaults()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            injector = Injector(source, failures=failures)
            await injector.prepare(dialect, SAMPLES["openai_chat"].asked(), Scope())
    assert len(caplog.records) == 1
