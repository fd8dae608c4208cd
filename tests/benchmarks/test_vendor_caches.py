"""The vendors' rules, each with a handmade request and the expected numbers.

`text(n)` is n tokens long with its frame, so the sums can be done in the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx_testing.fake_provider.requests import RefusalError
from benchmarks.prompt_blocks import anthropic_blocks, gemini_blocks, ollama_blocks, openai_chat_blocks
from benchmarks.vendor_caches import AnthropicCache, PrefixCache, PromptUsage, common_prefix

MODEL = "claude-sonnet-4-5"
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
MINUTE_MS = 60_000


def content(tokens: int, fill: str = "x") -> str:
    """Return a text that has this many tokens, including its frame."""
    return fill * 4 * (tokens - 1)


def text(tokens: int, marker: dict[str, str] | None = None, fill: str = "x") -> dict[str, Any]:
    part: dict[str, Any] = {"type": "text", "text": content(tokens, fill)}
    return {**part, "cache_control": marker} if marker else part


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def ask(cache: AnthropicCache, body: dict[str, Any], now_ms: int = 0, model: str = MODEL) -> PromptUsage:
    return cache.ask(model, anthropic_blocks(body), body.get("cache_control"), now_ms=now_ms)


def figures(usage: PromptUsage) -> tuple[int, int, int]:
    """cache_read_input_tokens, cache_creation_input_tokens, input_tokens."""
    return usage.cached, usage.written, usage.plain


class TestAnthropic:
    def test_without_a_breakpoint_nothing_is_cached(self) -> None:
        cache = AnthropicCache()
        body = {"messages": [user(text(2_000))]}
        assert [figures(ask(cache, body)) for _ in range(2)] == [(0, 0, 2_000)] * 2

    def test_a_prefix_is_written_and_then_read(self) -> None:
        cache = AnthropicCache()
        body = {"system": [text(1_500, MARK)], "messages": [user(text(100))]}
        assert figures(ask(cache, body)) == (0, 1_500, 100)
        assert figures(ask(cache, body)) == (1_500, 0, 100)

    def test_a_longer_prompt_reads_the_old_prefix_and_writes_the_rest(self) -> None:
        cache = AnthropicCache()
        first = {"system": [text(1_500, MARK)], "messages": [user(text(100, MARK))]}
        assert figures(ask(cache, first)) == (0, 1_600, 0)
        longer = {
            "system": [text(1_500, MARK)],
            "messages": [
                user(text(100)),
                {"role": "assistant", "content": [text(50)]},
                user(text(30, MARK), text(7)),
            ],
        }
        assert figures(ask(cache, longer)) == (1_600, 80, 7)

    @pytest.mark.parametrize(
        ("changed", "expected"),
        [("tools", (0, 4_500, 0)), ("system", (1_500, 3_000, 0)), ("messages", (3_000, 1_500, 0))],
    )
    def test_a_change_invalidates_everything_after_it(
        self, changed: str, expected: tuple[int, int, int]
    ) -> None:
        def body(section: str) -> dict[str, Any]:
            fills = {name: "y" if name == section else "x" for name in ("tools", "system", "messages")}
            # {"d":"…"} is 8 bytes beside the text, so two tokens, and one is the frame.
            tool = {"d": fills["tools"] * 4 * 1_497, "cache_control": MARK}
            return {
                "tools": [tool],
                "system": [text(1_500, MARK, fills["system"])],
                "messages": [user(text(1_500, MARK, fills["messages"]))],
            }

        cache = AnthropicCache()
        assert figures(ask(cache, body("none"))) == (0, 4_500, 0)
        assert figures(ask(cache, body(changed))) == expected

    def test_four_breakpoints_are_allowed_and_a_fifth_is_refused(self) -> None:
        four = {"messages": [user(*[text(400, MARK)] * 4)]}
        assert figures(ask(AnthropicCache(), four)) == (0, 1_600, 0)
        five = {"messages": [user(*[text(400, MARK)] * 5)]}
        with pytest.raises(RefusalError, match=r"may be provided\. Found 5"):
            ask(AnthropicCache(), five)

    def test_the_marker_of_the_request_is_a_breakpoint_too(self) -> None:
        parts = [text(400, MARK)] * 4 + [text(400)]
        with pytest.raises(RefusalError, match="Found 5"):
            ask(AnthropicCache(), {"cache_control": MARK, "messages": [user(*parts)]})
        at_the_end = {"cache_control": MARK, "messages": [user(*parts[:4])]}
        assert figures(ask(AnthropicCache(), at_the_end)) == (0, 1_600, 0)

    def test_the_marker_of_the_request_is_on_the_last_block_that_can_be_cached(self) -> None:
        thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]}
        body = {"cache_control": MARK, "messages": [user(text(2_000)), thinking]}
        usage = ask(AnthropicCache(), body)
        assert usage.written == 2_000
        assert usage.plain == usage.tokens - 2_000 > 0

    def test_the_marker_of_the_request_moves_on_with_the_conversation(self) -> None:
        cache = AnthropicCache()
        messages = [user(text(2_000))]
        assert figures(ask(cache, {"cache_control": MARK, "messages": messages})) == (0, 2_000, 0)
        messages += [{"role": "assistant", "content": [text(20)]}, user(text(30))]
        assert figures(ask(cache, {"cache_control": MARK, "messages": messages})) == (2_000, 50, 0)

    @pytest.mark.parametrize(("added", "cached"), [(19, 1_100), (20, 0)])
    def test_a_breakpoint_looks_back_over_20_blocks(self, added: int, cached: int) -> None:
        cache = AnthropicCache()
        ask(cache, {"messages": [user(text(1_100, MARK))]})
        later = user(text(1_100), *[text(2)] * (added - 1), text(2, MARK))
        usage = ask(cache, {"messages": [later]})
        assert figures(usage) == (cached, 1_100 - cached + 2 * added, 0)

    def test_another_breakpoint_reaches_further_back(self) -> None:
        cache = AnthropicCache()
        ask(cache, {"messages": [user(text(1_100, MARK))]})
        later = user(text(1_100, MARK), *[text(2)] * 30, text(2, MARK))
        assert figures(ask(cache, {"messages": [later]})) == (1_100, 62, 0)

    def test_only_breakpoints_can_be_read(self) -> None:
        cache = AnthropicCache()
        ask(cache, {"messages": [user(text(1_100), text(300, MARK))]})
        other_end = {"messages": [user(text(1_100), text(300, MARK, "y"))]}
        assert figures(ask(cache, other_end)) == (0, 1_400, 0)

    @pytest.mark.parametrize(
        ("model", "minimum"),
        [
            ("claude-sonnet-4-5", 1_024),
            ("claude-opus-4-1", 1_024),
            ("claude-3-5-haiku-latest", 2_048),
            ("claude-opus-4-7", 2_048),
            ("claude-opus-4-6", 4_096),
            ("claude-haiku-4-5-20251001", 4_096),
        ],
    )
    def test_prompts_below_the_models_minimum_are_not_cached(self, model: str, minimum: int) -> None:
        for tokens, expected in ((minimum - 1, (0, 0)), (minimum, (minimum, 0))):
            cache = AnthropicCache()
            body = {"messages": [user(text(tokens, MARK))]}
            ask(cache, body, model=model)
            assert figures(ask(cache, body, model=model))[:2] == expected

    def test_models_share_nothing(self) -> None:
        cache = AnthropicCache()
        body = {"messages": [user(text(2_000, MARK))]}
        ask(cache, body)
        assert figures(ask(cache, body, model="claude-opus-4-1")) == (0, 2_000, 0)

    @pytest.mark.parametrize(("marker", "minutes"), [(MARK, 5), (HOUR, 60)])
    def test_a_prefix_lives_from_its_last_use(self, marker: dict[str, str], minutes: int) -> None:
        cache = AnthropicCache()
        body = {"messages": [user(text(2_000, marker))]}
        life_ms = minutes * MINUTE_MS
        moments = [0, life_ms - 1, 2 * life_ms - 2, 3 * life_ms - 2]
        assert [ask(cache, body, now_ms).cached for now_ms in moments] == [0, 2_000, 2_000, 0]

    def test_a_lookback_counts_as_a_use(self) -> None:
        cache = AnthropicCache()
        ask(cache, {"messages": [user(text(2_000, MARK))]})
        for minutes, fill in ((4, "y"), (8, "z")):
            later = {"messages": [user(text(2_000), text(10, MARK, fill))]}
            assert figures(ask(cache, later, minutes * MINUTE_MS)) == (2_000, 10, 0)

    def test_tokens_are_written_for_an_hour_and_for_five_minutes(self) -> None:
        body = {"system": [text(1_500, HOUR)], "messages": [user(text(100, MARK), text(9))]}
        usage = ask(AnthropicCache(), body)
        assert (usage.written_1h, usage.written_5m, usage.plain) == (1_500, 100, 9)

    def test_an_hour_must_not_follow_five_minutes(self) -> None:
        body = {"system": [text(1_500, MARK)], "messages": [user(text(100, HOUR))]}
        with pytest.raises(RefusalError, match="must not come after"):
            ask(AnthropicCache(), body)

    @pytest.mark.parametrize(
        "part", [{"type": "text", "text": ""}, {"type": "thinking", "thinking": "t", "signature": "s"}]
    )
    def test_an_empty_or_thinking_block_cannot_be_marked(self, part: dict[str, Any]) -> None:
        with pytest.raises(RefusalError, match="empty or thinking"):
            ask(AnthropicCache(), {"messages": [user({**part, "cache_control": MARK})]})

    def test_moving_a_marker_changes_no_prefix(self) -> None:
        cache = AnthropicCache()
        ask(cache, {"messages": [user(text(2_000, MARK), text(10))]})
        assert figures(ask(cache, {"messages": [user(text(2_000), text(10, MARK))]})) == (2_000, 10, 0)


def chat(*tokens: int, end: str = "") -> dict[str, Any]:
    """User messages with the given numbers of tokens; the last one ends differently in each chat."""
    texts = [content(count) for count in tokens]
    texts[-1] = texts[-1][: len(texts[-1]) - len(end)] + end
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def cached(cache: PrefixCache, bodies: Sequence[dict[str, Any]], now_ms: Sequence[int] = ()) -> list[int]:
    moments = now_ms or [0] * len(bodies)
    asked = zip(bodies, moments, strict=True)
    return [cache.ask(openai_chat_blocks(body), now_ms=moment).cached for body, moment in asked]


class TestOpenAI:
    @pytest.mark.parametrize(
        ("tokens", "expected"), [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152), (1_300, 1_280)]
    )
    def test_from_1024_tokens_in_steps_of_128(self, tokens: int, expected: int) -> None:
        assert cached(PrefixCache.openai(), [chat(tokens)] * 2) == [0, expected]

    def test_only_a_common_prefix_is_cached(self) -> None:
        first, same_head = chat(1_200, 500), chat(1_200, 500, end="y")
        # All but the last token: 1,699, of which 13 steps of 128 are 1,664.
        assert cached(PrefixCache.openai(), [first, same_head]) == [0, 1_664]
        system = [{"role": "system", "content": "new"}]
        other_head = {"messages": [*system, *first["messages"]]}
        assert cached(PrefixCache.openai(), [first, other_head]) == [0, 0]

    def test_tools_come_first(self) -> None:
        body = {**chat(2_000), "tools": [{"name": "a"}]}
        assert cached(PrefixCache.openai(), [body, {**body, "tools": [{"name": "b"}]}]) == [0, 0]

    def test_the_best_of_several_recent_prompts_counts(self) -> None:
        first, other = chat(2_048), chat(2_048, end="y")
        assert cached(PrefixCache.openai(), [first, other, first]) == [0, 1_920, 2_048]

    def test_a_prompt_lives_five_minutes_from_its_last_use(self) -> None:
        moments = [0, 5 * MINUTE_MS - 1, 10 * MINUTE_MS - 2, 15 * MINUTE_MS - 2]
        assert cached(PrefixCache.openai(), [chat(2_048)] * 4, moments) == [0, 2_048, 2_048, 0]


class TestGemini:
    @pytest.mark.parametrize(
        ("model", "minimum"), [("gemini-2.5-flash", 2_048), ("gemini-3.1-pro-preview", 4_096)]
    )
    def test_the_common_prefix_from_the_minimum_of_the_model(self, model: str, minimum: int) -> None:
        for tokens, expected in ((minimum - 1, 0), (minimum, minimum), (minimum + 1, minimum + 1)):
            cache = PrefixCache.gemini(model)
            body = {"contents": [{"role": "user", "parts": [{"text": content(tokens)}]}]}
            assert [cache.ask(gemini_blocks(body), now_ms=0).cached for _ in range(2)] == [0, expected]

    def test_a_changed_system_instruction_costs_everything(self) -> None:
        cache = PrefixCache.gemini("gemini-2.5-flash")
        body = {"contents": [{"role": "user", "parts": [{"text": content(5_000)}]}]}
        for text_of, expected in (("a", 0), ("b", 0), ("a", 5_002)):
            system = {"systemInstruction": {"parts": [{"text": text_of}]}}
            assert cache.ask(gemini_blocks({**system, **body}), now_ms=0).cached == expected


class TestOllama:
    def test_the_slot_contains_only_the_last_prompt(self) -> None:
        cache = PrefixCache.ollama()
        # No minimum, but the last token is evaluated again.
        bodies = [chat(20), chat(20), chat(20, end="y"), chat(20, 5), chat(7, 5)]
        found = [cache.ask(ollama_blocks(body), now_ms=0).cached for body in bodies]
        assert found == [0, 19, 19, 19, 7]

    def test_another_conversation_in_between_takes_the_slot(self) -> None:
        cache = PrefixCache.ollama()
        other = {"messages": [{"role": "system", "content": "other"}]}
        bodies = [chat(20), other, chat(20)]
        assert [cache.ask(ollama_blocks(body), now_ms=0).cached for body in bodies] == [0, 0, 0]

    def test_the_model_is_unloaded_after_five_minutes(self) -> None:
        cache = PrefixCache.ollama()
        moments = [0, 5 * MINUTE_MS - 1, 10 * MINUTE_MS - 1]
        assert [cache.ask(ollama_blocks(chat(20)), now_ms=at).cached for at in moments] == [0, 19, 0]


@given(st.lists(st.binary(min_size=1, max_size=1)), st.lists(st.binary(min_size=1, max_size=1)))
def test_the_common_prefix_is_the_longest(one: list[bytes], other: list[bytes]) -> None:
    length = common_prefix(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


@given(
    st.lists(st.integers(2, 3_000), min_size=1, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5)
)
def test_every_token_is_read_or_written_or_neither(sizes: list[int], marks: list[bool]) -> None:
    cache = AnthropicCache()
    marks[0] = False
    parts = [text(size, MARK if mark else None) for size, mark in zip(sizes, marks, strict=False)]
    for _ in range(2):
        usage = ask(cache, {"messages": [user(*parts)]})
        assert usage.tokens == sum(sizes)
        assert min(figures(usage)) >= 0
        assert sum(figures(usage)) == usage.tokens
    assert usage.written == 0
