"""What of a reply is new."""

from __future__ import annotations

import random

import pytest

from agentctx.proxy.novelty import new_text
from agentctx.rag.render import BlockPassage, parse, render

ROUNDS = 10_000
PASSAGE = "The deploy window is on Tuesday at nine; Rosa has the key."


@pytest.mark.parametrize(
    "reply",
    [
        PASSAGE,
        f"> {PASSAGE}",
        f"- **{PASSAGE}**",
        PASSAGE.upper(),
        "The deploy window is on\nTuesday at nine; Rosa has the key.",
        "As noted, the deploy window is on Tuesday at nine.",
        f"“{PASSAGE}”",
        "",
        "Yes.",
        "42",
    ],
)
def test_what_was_injected_is_not_new(reply: str) -> None:
    assert new_text(reply, [PASSAGE]) == ""


def test_what_is_said_beside_it_is_new() -> None:
    reply = f"You asked about the window. {PASSAGE}\nThe staging cluster was rebooted during lunch."
    assert new_text(reply, [PASSAGE]) == (
        "You asked about the window.\nThe staging cluster was rebooted during lunch."
    )


def test_without_an_injection_everything_is_new() -> None:
    assert new_text("The staging cluster was rebooted.", []) == "The staging cluster was rebooted."


def test_injected_text_is_never_stored_again() -> None:
    """A memory that is injected, quoted in every way, captured and injected again does not grow by itself."""
    rng = random.Random(20_261_122)
    words = [
        f"{first}{second}"
        for first in ("kor", "mal", "tes", "bri", "von")
        for second in ("da", "lin", "ost", "ek")
    ]

    def sentence() -> str:
        return " ".join(rng.choice(words) for _ in range(rng.randint(5, 14))).capitalize() + "."

    memory = [" ".join(sentence() for _ in range(rng.randint(1, 4))) for _ in range(60)]
    first = set(memory)
    stored_again = 0
    for number in range(ROUNDS):
        given = rng.sample(memory, 4)
        passages = [
            BlockPassage(
                collection="observation", source="s", date="2026-11-22", trust="external", content=text
            )
            for text in given
        ]
        injected = [passage.content for passage in parse(render(passages, secret=b"k"))]
        fresh = (
            f"Step {number} of the work is {rng.choice(('finished', 'late', 'open'))} since {number} o'clock."
        )
        reply = "\n".join(_quoted(text, rng) for text in rng.sample(given, rng.randint(1, 3)))
        captured = new_text(f"{reply}\n{fresh}", injected)
        stored_again += any(line in text for line in captured.splitlines() for text in given)
        assert captured == fresh, (captured, given)
        memory[rng.randrange(len(memory))] = captured if number % 3 == 0 else memory[0]
    assert stored_again == 0
    assert first


def _quoted(text: str, rng: random.Random) -> str:
    return rng.choice(
        (
            lambda: text,
            lambda: f"> {text}",
            lambda: f"* **{text}**",
            text.upper,
            lambda: text.replace(" ", "\n", 1),
            lambda: f'"{text}"',
            lambda: text.partition(".")[0] + ".",
            lambda: "  ".join(text.split()),
        )
    )()
