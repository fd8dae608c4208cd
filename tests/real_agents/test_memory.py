"""A real agent remembers in one session what it learned in another. Offline, with a fake vendor."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import pytest

from agentctx.cli.import_from import kinds
from agentctx_testing.fake_provider.answers import FakeAnswer
from agentctx_testing.fake_provider.faults import HttpFault
from tests.real_agents.wires import SentText, mentions, messages, texts
from tests.real_agents.workshop import LIMIT_S, Turn, Workshop

FACT: Final = "The deploy window is on Tuesday at nine; Rosa has the key."
TOLD: Final = "PLEASE-REMEMBER. The deploy window is on Tuesday at nine; Rosa has the key."
ASKED: Final = "When is the deploy window and who has the key?"
UNRELATED: Final = "Which metal melts at the lowest temperature?"
NOTED: Final = "I have noted when the deploy window is, and that Rosa is the one who has the key to it."
PUZZLE: Final = "Why does the checkout job of the web shop fail on Fridays?"
EXPLAINED: Final = (
    "The checkout job fails on Fridays because the ledger database is vacuumed at nine on that day, which "
    "locks it for ten minutes. Move the job to six o'clock, or raise its lock timeout to fifteen minutes."
)
LONG: Final = "What is the shop built with? " + "Look at each of its pages. " * 1_500
SUMMARY: Final = "The shop is built with Django, because its admin pages save the team a month."
TOLD_RULE: Final = "We never push to main: every change goes through a branch and a pull request."
PUBLISH: Final = "Publish the change."
PROJECT_RULE: Final = "Titles of pull requests name the ticket."
HEADING: Final = "## Semantic Context (RAG)"
OURS: Final = ("search", "context", "save", "learn", "forget", "feedback")
SEVERAL_TURNS_S: Final = 600
ATTEMPTS: Final = 6
"""A hook answers within 300 ms or adds nothing, which is likelier on a busy machine."""


async def test_a_saved_fact_is_known_in_the_next_session(shop: Workshop) -> None:
    await shop.connect()
    first = await _tell(shop)
    assert [name for name in OURS if not mentions(first.requests[0], shop.agent.tool(name))] == []
    assert any(sent.role == "tool" and ", version 1." in sent.text for sent in texts(first.requests[-1]))
    if shop.agent.hook_role is None:
        await _knows_by_searching(shop)
    else:
        await _knows_by_hook(shop)


async def test_nothing_is_added_when_nothing_is_relevant(shop: Workshop) -> None:
    if shop.agent.hook_role is None:
        pytest.skip(f"connect writes no hook for {shop.agent.name}")
    await shop.connect()
    _save(shop)
    turn = await shop.turn(UNRELATED)
    assert turn.requests
    assert not _blocks(turn)


async def test_a_turn_is_remembered_if_the_user_enabled_it(shop: Workshop) -> None:
    await shop.connect("--remember")
    shop.vendor.answer(FakeAnswer(text=EXPLAINED, contains=PUZZLE))
    for _ in range(ATTEMPTS):
        await shop.turn(PUZZLE)
        with shop.daemon.client() as memory:
            turns = memory.list(collections=["observation"]).entries
        if turns:
            break
    # opencode quotes a prompt from its command line.
    assert turns[0].content.replace('"', "") == f"User: {PUZZLE}\n\nAssistant: {EXPLAINED}"
    await _import_finds_what_hooks_saved(shop)


async def test_what_the_user_tells_an_agent_is_known_in_the_next_session(shop: Workshop) -> None:
    if shop.agent.hook_role is None or shop.agent.name == "opencode":
        pytest.skip(f"{shop.agent.name} has no hook for prompts, or puts those of its command line in quotes")
    await shop.connect("--remember")
    shop.vendor.answer(FakeAnswer(text="Noted."))
    for _ in range(ATTEMPTS):
        await shop.turn(FACT)
        with shop.daemon.client() as memory:
            told = memory.list(collections=["observation"]).entries
        if told:
            break
    assert (told[-1].content, told[-1].trust) == (f"User: {FACT}", "agent")
    _load_model(shop)
    await _knows_by_hook(shop)


async def test_the_fix_of_a_failed_tool_is_learned(shop: Workshop) -> None:
    await shop.connect("--remember")
    (shop.project / "notes.txt").write_text("The shop runs in Oslo.", "utf-8")
    agent = shop.agent
    shop.vendor.answer(
        FakeAnswer(text="It runs in Oslo.", contains=("READ-THEM", "call_notes")),
        FakeAnswer(calls=(agent.run("cat notes.txt"),), contains=("READ-THEM", "call_note_")),
        FakeAnswer(calls=(agent.run("cat note_.txt"),), contains=("READ-THEM", agent.shell[0])),
    )
    for _ in range(ATTEMPTS):
        await shop.turn("READ-THEM and say where the shop runs.")
        with shop.daemon.client() as memory:
            learnings = memory.list(collections=["learning"]).entries
        if learnings:
            break
    (learning,) = learnings
    assert "note_.txt: No such file or directory" in str(learning.attributes["error_pattern"])
    assert learning.attributes["fix"] == "`cat note_.txt` failed; this worked: `cat notes.txt`"
    await _import_finds_what_hooks_saved(shop)


@pytest.mark.timeout(SEVERAL_TURNS_S)
async def test_the_summary_of_a_compaction_is_remembered(shop: Workshop) -> None:
    if not shop.agent.summarizes:
        pytest.skip(f"{shop.agent.name} keeps the summary of a compaction to itself")
    await shop.connect("--remember")
    shop.vendor.answer(FakeAnswer(text=SUMMARY))
    for _ in range(ATTEMPTS):
        await shop.turn(LONG)
        shop.agent.narrow(shop.home)
        await shop.turn(shop.agent.compacting_prompt, resumes=True)
        await shop.turn("And now?", resumes=True)
        with shop.daemon.client() as memory:
            summaries = memory.list(collections=["reflection"]).entries
        if summaries:
            break
    assert summaries
    assert [each.content for each in summaries if not each.content.endswith(SUMMARY)] == []


@pytest.mark.timeout(SEVERAL_TURNS_S)
async def test_a_rule_told_before_a_compaction_is_obeyed_after_it(shop: Workshop) -> None:
    if not shop.agent.restarts:
        pytest.skip(f"{shop.agent.name} keeps prompts, or starts no session again, when it compacts here")
    await shop.connect("--remember")
    with shop.daemon.client() as memory:
        memory.save_knowledge("titles", PROJECT_RULE, category="rule")
    _load_model(shop)
    shop.vendor.answer(
        FakeAnswer(text="I opened a pull request.", contains=(PUBLISH, TOLD_RULE)),
        FakeAnswer(text="I pushed it to main.", contains=PUBLISH),
        FakeAnswer(text=SUMMARY),
    )
    for _ in range(ATTEMPTS):
        await shop.turn(TOLD_RULE)
        await shop.turn(LONG, resumes=True)
        shop.agent.narrow(shop.home)
        await shop.turn(shop.agent.compacting_prompt, resumes=True)
        after = await shop.turn(PUBLISH, resumes=True)
        if "pull request" in after.printed:
            break
    assert "I opened a pull request." in after.printed
    given = "\n".join(sent.text for sent in texts(after.requests[0]))
    assert LONG not in given, "it was compacted"
    assert (given.count(TOLD_RULE), given.count(PROJECT_RULE)) == (1, 1)


@pytest.mark.timeout(SEVERAL_TURNS_S)
async def test_tools_explain_a_missing_daemon(shop: Workshop) -> None:
    await shop.connect()
    _save(shop)
    first, second, third = (f"{number} look: {ASKED}" for number in ("first", "second", "third"))
    shop.vendor.answer(
        FakeAnswer(text="I have looked.", contains=("LOOK-THRICE", third)),
        _looks_up(shop, third, after=second),
        _looks_up(shop, second, after=first),
        _looks_up(shop, first, after=_marker(shop)),
    )
    # The model is slow before the second and third attempt.
    shop.vendor.script(*(HttpFault(kind="slow_headers", contains=each, times=1) for each in (first, second)))
    turn = asyncio.create_task(shop.turn("LOOK-THRICE, please."))
    await asyncio.wait_for(shop.vendor.wait_until_held(), LIMIT_S)
    await asyncio.to_thread(shop.daemon.stop)
    shop.vendor.release()
    await asyncio.wait_for(shop.vendor.wait_until_held(), LIMIT_S)
    await asyncio.to_thread(shop.daemon.start)
    shop.vendor.release()
    before, away, after = (
        sent.text for sent in texts((await turn).requests[-1]) if sent.role == "tool" and _is_ours(sent.text)
    )
    assert FACT in before
    assert "agentctx serve" in away
    assert FACT in after
    if shop.agent.hook_role is not None:
        _load_model(shop)
        # Gemini CLI 0.61 resumes a session with each tool result twice, which the API rejects.
        await _knows_by_hook(shop, resumes=shop.agent.can_resume and shop.agent.name != "gemini")


async def test_a_missing_daemon_is_told_to_the_user_not_to_the_model(shop: Workshop) -> None:
    if shop.agent.hook_role is None:
        pytest.skip(f"connect writes no hook for {shop.agent.name}")
    await shop.connect()
    await asyncio.to_thread(shop.daemon.stop)
    turn = await shop.turn(UNRELATED)
    assert turn.requests, "it works as without a memory"
    assert not mentions(turn.requests[0], "memory daemon is not running")
    if shop.agent.name != "cline":  # it shows nothing of its plugins to its user
        assert list((shop.home / ".local/state/agentctx/missed-turns").glob("*.away")), "a hook has said so"


async def test_earlier_turns_stay_unchanged(shop: Workshop) -> None:
    """Otherwise each turn invalidates the vendor's prompt cache."""
    if not shop.agent.can_resume:
        pytest.skip(f"{shop.agent.name} resumes a session only in a terminal")
    if not shop.agent.keeps_prefix:
        pytest.skip(f"{shop.agent.name} itself changes how a conversation begins")
    await shop.connect()
    _save(shop)
    before = await shop.turn(ASKED)
    after = await shop.turn("And who was it again that has the key?", resumes=True)
    sent = messages(before.requests[-1])
    assert messages(after.requests[0])[: len(sent)] == sent


async def _import_finds_what_hooks_saved(shop: Workshop) -> None:
    if shop.agent.name in kinds():
        with shop.daemon.client() as memory:
            saved = len(memory.list(limit=100).entries)
        report = json.loads(await shop.agentctx("import", "--from", shop.agent.name, "--json"))
        assert (report["unchanged"], report["failed"]) == (saved, 0), report


def _looks_up(shop: Workshop, query: str, *, after: str) -> FakeAnswer:
    call = shop.agent.call("search", query=query)
    return FakeAnswer(calls=(call,), contains=("LOOK-THRICE", after))


def _is_ours(result: str) -> bool:
    return "memory daemon" in result or "Saved entries" in result


async def _tell(shop: Workshop) -> Turn:
    """Run a session in which the model saves a fact."""
    shop.vendor.answer(
        FakeAnswer(text=NOTED, contains=", version 1."),
        FakeAnswer(
            calls=(shop.agent.call("save", content=FACT),), contains=("PLEASE-REMEMBER", _marker(shop))
        ),
    )
    turn = await shop.turn(TOLD)
    shop.vendor.answer()
    _load_model(shop)
    return turn


def _save(shop: Workshop) -> None:
    with shop.daemon.client() as memory:
        memory.save_observation("earlier", FACT)
    _load_model(shop)


def _load_model(shop: Workshop) -> None:
    """Load the model before a hook with a deadline asks."""
    with shop.daemon.client() as memory:
        memory.drain(timeout_s=60.0)
        memory.context(ASKED)


def _marker(shop: Workshop) -> str:
    """Return a text that only requests with our tools contain."""
    return "mcp__agentctx" if shop.agent.name == "codex" else shop.agent.tool("save")


async def _knows_by_hook(shop: Workshop, *, resumes: bool = False) -> None:
    for _ in range(ATTEMPTS):
        turn = await shop.turn(ASKED, resumes=resumes)
        blocks = _blocks(turn)
        if blocks:
            break
    (block,) = blocks
    assert block.role == shop.agent.hook_role
    assert FACT in block.text


async def _knows_by_searching(shop: Workshop) -> None:
    search = FakeAnswer(calls=(shop.agent.call("search", query=ASKED),), contains=_marker(shop), times=1)
    shop.vendor.answer(search)
    turn = await shop.turn(ASKED)
    assert any(sent.role == "tool" and FACT in sent.text for sent in texts(turn.requests[-1]))


def _blocks(turn: Turn) -> list[SentText]:
    """Return the texts of the first request that contain one of our blocks."""
    return [sent for sent in texts(turn.requests[0]) if HEADING in sent.text]
