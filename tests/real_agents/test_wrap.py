"""Real agents under `agentctx wrap`: calls go through the proxy, and the memory is injected once."""

from __future__ import annotations

from typing import Final

import pytest

from tests.real_agents.wires import texts
from tests.real_agents.workshop import Turn, Workshop

FACT: Final = "The deploy window is on Tuesday at nine; Rosa has the key."
ASKED: Final = "When is the deploy window and who has the key?"
HOOK_MARKS: Final = ("<hook_context>", "<system_reminder>", "&lt;memory ")
ATTEMPTS: Final = 6
"""A hook answers within 300 ms or adds nothing, which is likelier on a busy machine."""


async def test_a_call_goes_through_the_proxy_and_gets_its_context(wrapped_shop: Workshop) -> None:
    _save(wrapped_shop)
    turn = await wrapped_shop.turn(ASKED)
    assert _count_mentions(turn) == 1
    assert [sent.role for sent in texts(turn.requests[0]) if FACT in sent.text] == ["user"]


async def test_hook_and_proxy_together_inject_once(wrapped_shop: Workshop) -> None:
    role = wrapped_shop.agent.hook_role
    if role is None:
        pytest.skip(f"connect writes no hook for {wrapped_shop.agent.name}")
    _save(wrapped_shop)
    await wrapped_shop.connect()
    for _ in range(ATTEMPTS):
        turn = await wrapped_shop.turn(ASKED)
        assert _count_mentions(turn) == 1
        # opencode does not mark what a plugin adds, so it looks like the proxy's block.
        if wrapped_shop.agent.name == "opencode" or _is_from_hook(turn, role):
            break
    else:
        raise AssertionError("the hook never answered in time")


def _save(shop: Workshop) -> None:
    with shop.daemon.client() as memory:
        memory.save_observation("earlier", FACT, wait="embedded")
        memory.context(ASKED)  # the model is loaded before a hook with a deadline asks it


def _is_from_hook(turn: Turn, role: str) -> bool:
    """By its role, or by what the agent puts around a hook's context in the user's turn."""
    found = next(sent for sent in texts(turn.requests[0]) if FACT in sent.text)
    before = found.text[: found.text.index(FACT)]
    return found.role == role and (role != "user" or any(mark in before for mark in HOOK_MARKS))


def _count_mentions(turn: Turn) -> int:
    return sum(sent.text.count(FACT) for sent in texts(turn.requests[0]))
