"""What a prompt asks of the memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.rag.prompt import FIRST_WINDOW, has_content, is_prose, queries_of

PASTE = "\n".join(f"    result[{n}] = compute(values[{n}], scale={n});" for n in range(90))


@pytest.mark.parametrize(
    "prompt",
    [
        "thanks!",
        "ok, go on",
        "Please continue.",
        "That looks great, do it again",
        "danke, mach weiter",
        "gracias, sigue así",
        "merci, continue comme ça",
        "obrigado, pode continuar",
        "спасибо, продолжай",
        "谢谢 请继续。",
        "ありがとう、続けてください。",
        "शुक्रिया",
        "শুধু ধন্যবাদ"[5:],
        "شكرا، تابع من فضلك",
        "شکریہ",
        "감사합니다, 계속해 주세요",
        "👍",
        "...",
        "",
    ],
)
def test_a_prompt_without_content_asks_nothing(prompt: str) -> None:
    assert not has_content(prompt)


@pytest.mark.parametrize(
    "prompt",
    ["thanks, now deploy it", "42", "continue with the invoice", "会议改到星期四了", "Rechnung?", "mkdir"],
)
def test_one_content_word_suffices(prompt: str) -> None:
    assert has_content(prompt)


def test_a_short_prompt_is_one_question() -> None:
    assert queries_of("  When do deploys happen? ") == ("When do deploys happen?",)


def test_a_long_prompt_also_asks_the_lines_of_prose_around_a_paste() -> None:
    first, last = "Here is what I get since yesterday", "Which setting makes this fail on staging?"
    whole, *lines = queries_of(f"{first}\n\n{PASTE}\n\n{last}")
    assert whole.startswith(first)
    assert lines == [first, last]


def test_a_paste_without_prose_asks_itself_only() -> None:
    (whole,) = queries_of(PASTE)
    assert whole == PASTE.strip()[:FIRST_WINDOW]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Which setting makes this fail on staging?", True),
        ("为什么今天早上的部署失败了", True),
        ("return compute the value of it;", False),
        ("import all of these modules now", False),
        ("2026-11-23 10:00:01 ERROR [db] 42", False),
        ("ok then", False),
    ],
)
def test_prose_is_distinguished_from_code(line: str, expected: bool) -> None:
    assert is_prose(line) is expected


@given(st.text(min_size=1, max_size=4_000))
def test_every_prompt_asks_something_short_enough(prompt: str) -> None:
    queries = queries_of(prompt)
    assert 1 <= len(queries) <= 3
    assert all(len(query) <= max(FIRST_WINDOW, 300) for query in queries)
