import json

from agentctx.client import saves
from agentctx.redaction.encoded import has_long_run
from agentctx.wire import SaveRequest


def test_a_save_sends_only_given_fields() -> None:
    call = saves.save_once(SaveRequest(collection="knowledge", key="k", content="東京"), "once")

    assert (call.method, call.path) == ("POST", "/v1/entries")
    assert call.headers == {"Content-Type": "application/json", "Idempotency-Key": "once"}
    assert json.loads(call.body or b"") == {
        "collection": "knowledge",
        "content": "東京",
        "key": "k",
        "namespace": "default",
        "origin": "agent",
    }


def test_idempotency_keys_are_unique_and_too_short_to_look_encoded() -> None:
    keys = {saves.new_idempotency_key() for _ in range(1_000)}
    assert len(keys) == 1_000
    assert not any(has_long_run(f"{key}/0") for key in keys), (
        "the daemon appends a number for each save of a request"
    )
