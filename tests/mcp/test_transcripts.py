import json

import pytest

from agentctx.mcp.transcripts import last_prompt


@pytest.mark.parametrize(
    "line",
    [
        {"type": "user", "message": {"role": "user", "content": "How do we deploy?"}},
        {"type": "user", "message": {"content": [{"type": "text", "text": "How do we deploy?"}]}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "How do we deploy?"}},
        {"type": "user.message", "data": {"content": "How do we deploy?"}},
    ],
)
def test_the_last_prompt_is_found_in_each_clients_transcript(line: object) -> None:
    after = [
        {"type": "assistant", "message": {"content": "By hand."}},
        {"type": "user", "isMeta": True, "message": {"content": "meta"}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "ok"}]}},
        {"type": "user", "message": {"content": "<system-reminder>x</system-reminder>"}},
        [1],
    ]
    lines = [json.dumps(each) for each in [{"type": "user", "message": {"content": "before"}}, line, *after]]
    assert last_prompt(["cut off", *lines, "{"]) == "How do we deploy?"


def test_without_a_prompt_there_is_none() -> None:
    assert last_prompt(["{", '{"type": "user"}', '{"type": "event_msg", "payload": 1}']) == ""
