"""What upstreams refused, over simulated days."""

from __future__ import annotations

from agentctx.service.refusals import MAX_REFUSED, REST_MS, Refusals


def test_three_refusals_in_a_row_rest_a_model_for_a_day() -> None:
    now = 0
    refusals = Refusals(lambda: now)
    for count in range(MAX_REFUSED):
        assert not refusals.rests("u", "m"), count
        refusals.note_refused("u", "m", 422)
    assert refusals.rests("u", "m")
    assert not refusals.rests("u", "other")
    assert not refusals.rests("other", "m")
    refusals.note_taken("u", "m")  # a call that was under way
    assert [(each.upstream, each.model, each.until) for each in refusals.resting()] == [("u", "m", REST_MS)]
    now = REST_MS
    assert not refusals.rests("u", "m")
    assert refusals.resting() == []
    refusals.note_refused("u", "m", 400)
    assert not refusals.rests("u", "m"), "it has three again"


def test_a_call_that_was_taken_begins_anew() -> None:
    refusals = Refusals(lambda: 0)
    for _ in range(5):
        refusals.note_refused("u", "m", 400)
        refusals.note_refused("u", "m", 413)
        refusals.note_taken("u", "m")
    assert not refusals.rests("u", "m")


def test_clients_cannot_fill_the_memory_with_names() -> None:
    refusals = Refusals(lambda: 0)
    for number in range(3_000):
        refusals.note_refused("u", str(number), 400)
    assert len(refusals._known) <= 1_000
