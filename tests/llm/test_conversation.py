"""Blocks are repeated unchanged, within bounds, in their own conversation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.llm.conversation import MAX_FORGOTTEN, ConversationMemory, conversation_key, reply_key
from agentctx.llm.dialects.base import Dialect
from agentctx.llm.dialects.content import Body
from agentctx.llm.dialects.registry import find_dialect
from agentctx.llm.scope import Scope

CHAT = find_dialect("openai_chat")
RESPONSES = find_dialect("openai_responses")
BODY = {"messages": [{"role": "user", "content": "hi"}]}


def key_of(dialect: Dialect, body: Body, scope: Scope) -> str | None:
    return conversation_key(dialect.conversation_key(body), scope)


def test_blocks_come_back_in_the_order_they_were_given() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t1", "one")
    memory.remember("c", "t2", "two")
    assert list(memory.recall("c").blocks.items()) == [("t1", "one"), ("t2", "two")]
    assert memory.recall("c").latest == "two"
    assert memory.recall("other").blocks == {}


def test_an_empty_block_removes_the_previous_one() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t", "one")
    memory.remember("c", "t", "")
    assert memory.recall("c").blocks == {}
    assert memory.recall("c").latest is None
    assert memory.bytes == 0


def test_a_turn_is_answered_also_where_nothing_was_relevant() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t1", "one")
    memory.remember("c", "t2", "")
    memory.remember("c", "t3", None)
    assert set(memory.recall("c").answered) == {"t1", "t2"}
    assert memory.recall("c").latest is None
    assert memory.recall("other").answered == ()


def test_without_an_answer_a_turn_keeps_its_block() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t1", "one")
    memory.remember("c", "t2", "two")
    memory.remember("c", "t1", None)
    assert memory.recall("c").blocks == {"t1": "one", "t2": "two"}
    assert memory.recall("c").latest == "one"


def test_recalled_passages_do_not_change_later() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t", "one")
    recalled = memory.recall("c")
    memory.remember("c", "t", "two")
    assert recalled.blocks == {"t": "one"}


def test_the_least_recently_used_conversation_is_evicted_first() -> None:
    memory = ConversationMemory(max_conversations=2)
    memory.remember("a", "t", "x")
    memory.remember("b", "t", "x")
    memory.recall("a")
    memory.remember("c", "t", "x")
    assert [bool(memory.recall(key).blocks) for key in "abc"] == [True, False, True]


def test_a_reply_continues_with_its_conversation_and_with_its_own_block() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t1", "one")
    memory.link("reply 1", "c", "t1")
    memory.remember("c", "t2", "two")
    memory.link("reply 2", "reply 1", None)
    assert memory.recall("reply 1").latest == memory.recall("reply 2").latest == "one"
    memory.remember("reply 1", "t3", "three")
    assert memory.recall("c").blocks["t3"] == "three"


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.sampled_from("123456"), st.sampled_from(["", "x", "éé", "y" * 9])
        ),
        max_size=60,
    )
)
def test_no_limit_is_ever_passed(steps: list[tuple[str, str, str]]) -> None:
    memory = ConversationMemory(max_conversations=3, max_blocks=2, max_bytes=30)
    for key, turn, block in steps:
        memory.remember(key, turn, block)
        kept = [memory.recall(name).blocks for name in "abcd"]
        answered = [memory.recall(name).answered for name in "abcd"]
        assert sum(map(bool, answered)) <= 3
        assert all(len(turns) <= 2 for turns in answered)
        assert sum(map(bool, kept)) <= 3
        assert all(len(blocks) <= 2 for blocks in kept)
        assert memory.bytes == sum(len(text.encode()) for blocks in kept for text in blocks.values()) <= 30


def test_links_are_bounded_too() -> None:
    memory = ConversationMemory(max_conversations=1)
    memory.remember("c", "t", "one")
    for number in range(9):
        memory.link(str(number), "c", "t")
    assert not memory.recall("0").blocks
    assert memory.recall("8").blocks


def test_the_session_takes_precedence_over_the_body() -> None:
    chained = {"previous_response_id": "r", "input": "hi"}
    by_session = key_of(RESPONSES, chained, Scope(conversation="s"))
    assert by_session == key_of(RESPONSES, {"input": "ho"}, Scope(conversation="s"))
    assert by_session != key_of(RESPONSES, chained, Scope())


def test_namespaces_and_agents_never_share_a_conversation() -> None:
    scopes = [Scope(), Scope(namespaces=("n",)), Scope(agent="n"), Scope(namespaces=("n",), agent="n")]
    assert len({key_of(CHAT, BODY, scope) for scope in scopes}) == 4


def test_a_body_that_cannot_be_read_has_no_conversation() -> None:
    assert key_of(CHAT, {}, Scope()) is None


def test_only_a_stateful_api_continues_by_reply_ids() -> None:
    reply = {"id": "r", "object": "response"}
    assert reply_key(RESPONSES, {"input": "hi"}, Scope(), reply) is not None
    assert reply_key(RESPONSES, {"input": "hi"}, Scope(conversation="s"), reply) is None
    assert reply_key(CHAT, BODY, Scope(), reply) is None


def test_no_block_with_a_forgotten_entry_is_given_again() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t1", "one", ["a", "b"])
    memory.remember("c", "t2", "two", ["b"])
    memory.remember("d", "t1", "other", ["c"])
    memory.forget(["a", "c"])
    assert memory.recall("c").blocks == {"t2": "two"}
    assert memory.recall("c").ids == {"t2": ("b",)}
    assert set(memory.recall("c").answered) == {"t2"}
    assert memory.recall("d").blocks == {}
    assert memory.recall("d").latest is None
    assert memory.bytes == len("two")


def test_a_block_that_was_under_way_while_its_entry_was_forgotten_is_not_kept() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t1", "one", ["a"])
    memory.forget(["a"])
    memory.remember("c", "t2", "late", ["a", "b"])
    assert memory.recall("c").blocks == {}
    assert memory.bytes == 0


def test_forgotten_ids_are_kept_up_to_a_limit() -> None:
    memory = ConversationMemory()
    memory.forget(["first"])
    memory.forget([f"e{number}" for number in range(MAX_FORGOTTEN)])
    memory.remember("c", "t1", "long ago", ["first"])
    memory.remember("c", "t2", "just now", [f"e{MAX_FORGOTTEN - 1}"])
    assert memory.recall("c").blocks == {"t1": "long ago"}


def test_a_turn_without_an_answer_begins_no_conversation() -> None:
    memory = ConversationMemory()
    memory.remember("c", "t", None)
    assert not memory.recall("c").answered
