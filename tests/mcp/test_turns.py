"""What is remembered of a conversation: 300 turns with the expected results.

`turns.jsonl` was written for this: odd lines served to choose the phrases, even lines were only measured.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest

from agentctx.mcp.turns import MAX_ANSWER_CHARS, MAX_PROMPT_CHARS, remembered_turn
from agentctx.rag.render import BlockPassage, render

TURNS = [
    json.loads(line) for line in (Path(__file__).parent / "data/turns.jsonl").read_text("utf-8").splitlines()
]
BAR = 0.9


class Measured(NamedTuple):
    precision: float
    recall: float


def measured(turns: list[dict[str, str]]) -> Measured:
    kept = [bool(remembered_turn(turn["prompt"], turn["answer"])) for turn in turns]
    right = sum(is_kept and bool(turn["keep"]) for is_kept, turn in zip(kept, turns, strict=True))
    return Measured(right / sum(kept), right / sum(bool(turn["keep"]) for turn in turns))


def test_the_turns_that_were_only_measured_are_judged_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(TURNS) == 300
    tuned, held_out = measured(TURNS[0::2]), measured(TURNS[1::2])
    with capsys.disabled():
        print(f"\nremembering: tuned {tuned}, held out {held_out}")  # noqa: T201 - the figures are the point
    assert min(held_out) >= BAR


def test_a_turn_keeps_the_prompt_and_the_answer() -> None:
    kept = remembered_turn("We never deploy on Fridays, remember that.", "Noted.")
    assert kept == "User: We never deploy on Fridays, remember that.\n\nAssistant: Noted."
    assert remembered_turn("", "The port is 8443 because 443 is taken.") == (
        "Assistant: The port is 8443 because 443 is taken."
    )


def test_short_code_is_kept_and_a_dump_removed() -> None:
    snippet = "```sh\nmake unit\n```"
    dump = "```\n" + "\n".join(f"line {number}" for number in range(40)) + "\n```"
    kept = remembered_turn(
        "how?", f"Use this, because Docker is only needed for the others.\n{snippet}\n{dump}"
    )
    assert kept is not None
    assert snippet in kept
    assert "line 7" not in kept


def test_a_long_turn_is_cut() -> None:
    long = "We always use tabs here, because the linter wants it. " * 1_000
    kept = remembered_turn(long, long)
    assert kept is not None
    assert len(kept) <= MAX_PROMPT_CHARS + MAX_ANSWER_CHARS + 50


@pytest.mark.parametrize(
    "text",
    [
        "the file has been " + "a" * 50_000 + "!",
        "ok, " * 20_000,
        "```\n" * 20_000,
        "cd a && " * 10_000,
        "> " * 50_000,
        "<hook_context>" * 20_000,
        '### [a] "' * 10_000,
    ],
)
def test_a_hostile_turn_is_judged_in_linear_time(text: str) -> None:
    remembered_turn(text, text)


@pytest.mark.parametrize("turns", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nothing_that_was_injected_is_kept_again(turns: int) -> None:
    dice = random.Random(1)
    for number in range(turns):
        turn = dice.choice(TURNS)
        prompt, answer = (_with_context(turn[name], number, dice) for name in ("prompt", "answer"))
        kept = remembered_turn(prompt, answer)
        assert kept is None or "canary" not in kept, (number, kept)
        assert (kept is not None) == (remembered_turn(turn["prompt"], turn["answer"]) is not None)


def _with_context(text: str, number: int, dice: random.Random) -> str:
    """Return the text with context before or after it, as each client inserts it."""
    says = f"We always deploy canary {number} on Tuesdays, because of `canary.{number}`."
    passage = BlockPassage(
        collection="knowledge",
        source=f"canary-{number}",
        date="2026-01-01",
        trust="agent",
        content=says,
        namespace="user:ann",
    )
    block = render([passage, passage], secret=b"s" * 32)
    contexts = [
        block,
        f"UserPromptSubmit hook additional context: {block}",
        block.split("\n<memory ")[1].partition("\n")[2].partition("</memory")[0].rstrip(),
        f"<hook_context>{says}</hook_context>",
        f"<system-reminder>\n{says}\n</system-reminder>",
        f"<system_reminder>{block}</system_reminder>",
        f"<environment_context><cwd>/canary</cwd>{says}</environment_context>",
        f"<claude-mem-context>\n{says}\n</claude-mem-context>",
        f"<relevant_memories>{says}</relevant_memories>",
    ]
    parts = [text, *dice.sample(contexts, dice.randrange(3))]
    dice.shuffle(parts)
    return "\n\n".join(parts)
