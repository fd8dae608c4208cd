"""A real agent is told what concerns a command: before it runs, or after it has failed. Offline."""

from __future__ import annotations

import pytest

from agentctx_testing.fake_provider.answers import FakeAnswer
from tests.real_agents.wires import texts
from tests.real_agents.workshop import Turn, Workshop

RULE = "The files in ledger/closed are signed off. Nobody deletes anything there; ask Rosa for a correction."
FIX = "Run scripts/fetch-rates.sh first."
ATTEMPTS = 6
"""A hook answers within 300 ms or adds nothing, which is likelier on a busy machine."""


async def test_a_rule_arrives_with_the_command_it_concerns(shop: Workshop) -> None:
    if not shop.agent.tells_before:
        pytest.skip(f"{shop.agent.name} takes no context before a tool call")
    await shop.connect()
    with shop.daemon.client() as memory:
        memory.save_observation("earlier", RULE)  # knowledge would come at the start of the session
    turn = await _turn(shop, "GO-ON, please.", "rm -f ledger/closed/may.txt", RULE)
    assert _places(turn, RULE) == {1}, "in the request that follows the call, and in no other message"


async def test_a_learning_arrives_after_the_command_that_failed(shop: Workshop) -> None:
    if not shop.agent.tells_after:
        pytest.skip(f"{shop.agent.name} takes no context after a tool call")
    await shop.connect()
    with shop.daemon.client() as memory:
        memory.save_learning(
            trigger="cat of a rates file that was never fetched",
            error_pattern="rates.txt: No such file or directory",
            diagnosis="The rates are fetched once a day.",
            fix=FIX,
        )
    turn = await _turn(shop, "GO-ON, please.", "cat rates.txt", FIX)
    assert _places(turn, FIX) == {1}


async def _turn(shop: Workshop, prompt: str, command: str, wanted: str) -> Turn:
    """Let the model run a command, until its hook was fast enough."""
    call = shop.agent.run(command)
    word = prompt.partition(",")[0]
    shop.vendor.answer(
        FakeAnswer(text="Done.", contains=(word, call.id)),
        FakeAnswer(calls=(call,), contains=(word, shop.agent.shell[0])),
    )
    for _ in range(ATTEMPTS):
        turn = await shop.turn(prompt)
        if _places(turn, wanted):
            break
    return turn


def _places(turn: Turn, wanted: str) -> set[int]:
    """Return the numbers of the requests in which a message first has the text."""
    seen = [any(wanted in sent.text for sent in texts(body)) for body in turn.requests]
    return {seen.index(True)} if any(seen) else set()
