from __future__ import annotations

from agentctx.client.session import new_idempotency_key
from agentctx.redaction.encoded import has_long_run


def test_a_key_differs_from_others_and_is_too_short_to_be_decoded() -> None:
    keys = {new_idempotency_key() for _ in range(1_000)}
    assert len(keys) == 1_000
    assert not any(has_long_run(f"{key}/0") for key in keys), "the daemon numbers the saves of a request"
