"""What is remembered of a conversation: 300 turns with the expected results.

`turns.jsonl` was written for this: odd lines served to choose the phrases, even lines were only measured.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest

from agentctx.agents.hooks.own_words import own_words
from agentctx.agents.hooks.turns import MAX_ANSWER_CHARS, MAX_PROMPT_CHARS, remembered_parts
from agentctx.service.rag.render import BlockPassage, render

TURNS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/turns.jsonl").read_text("utf-8").splitlines()
]
BAR = 0.9


class Measured(NamedTuple):
    precision: float
    recall: float


def measured(turns: list[dict[str, str]]) -> Measured:
    kept = [bool(remembered_parts(turn["prompt"], turn["answer"])) for turn in turns]
    right = sum(is_kept and bool(turn["keep"]) for is_kept, turn in zip(kept, turns, strict=True))
    return Measured(right / sum(kept), right / sum(bool(turn["keep"]) for turn in turns))


def test_the_turns_that_were_only_measured_are_judged_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(TURNS) == 300
    tuned, held_out = measured(TURNS[0::2]), measured(TURNS[1::2])
    with capsys.disabled():
        print(f"\nremembering: tuned {tuned}, held out {held_out}")  # noqa: T201 - the figures are the point
    assert min(held_out) >= BAR


def test_each_part_is_kept_for_what_it_says_and_a_question_with_its_answer() -> None:
    told, answer = "We never deploy on Fridays, remember that.", "The port is 8443 because 443 is taken."
    assert remembered_parts(told, "Noted.") == {"prompt": f"User: {told}"}
    assert remembered_parts(told, answer) == {"prompt": f"User: {told}", "answer": f"Assistant: {answer}"}
    assert remembered_parts("Which port?", answer) == {"answer": f"User: Which port?\n\nAssistant: {answer}"}
    assert remembered_parts("", answer) == {"answer": f"Assistant: {answer}"}


def test_short_code_is_kept_and_a_dump_removed() -> None:
    snippet = "```sh\nmake unit\n```"
    dump = "```\n" + "\n".join(f"line {number}" for number in range(40)) + "\n```"
    kept = remembered_parts(
        "how?", f"Use this, because Docker is only needed for the others.\n{snippet}\n{dump}"
    )["answer"]
    assert snippet in kept
    assert "line 7" not in kept


def test_a_long_turn_is_cut() -> None:
    long = "We always use tabs here, because the linter wants it. " * 1_000
    kept = remembered_parts(long, long)
    assert len(kept["prompt"]) <= MAX_PROMPT_CHARS + 50
    assert len(kept["answer"]) <= MAX_ANSWER_CHARS + 50


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
        "[Image #1 " * 20_000,
        "~~~\n```\n" * 20_000,
        "\t" * 100_000,
    ],
)
def test_a_hostile_turn_is_judged_in_linear_time(text: str) -> None:
    remembered_parts(text, text)
    own_words(text)


@pytest.mark.parametrize("turns", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nothing_that_was_injected_is_kept_again(turns: int) -> None:
    dice = random.Random(1)
    for number in range(turns):
        turn = dice.choice(TURNS)
        prompt, answer = (_with_context(turn[name], number, dice) for name in ("prompt", "answer"))
        kept = remembered_parts(prompt, answer)
        assert "canary" not in "".join(kept.values()), (number, kept)
        assert kept.keys() == remembered_parts(turn["prompt"], turn["answer"]).keys()


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
