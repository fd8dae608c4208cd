import json
from dataclasses import replace
from typing import Any

import pytest

from agentctx.client import by_key, calls, saves
from agentctx.client.api_call import ApiCall
from agentctx.client.decode import UnreadableReply
from agentctx.client.transport import HttpReply
from agentctx.doctor.check import FIX_S, SCAN_S
from agentctx.errors import AgentctxError, InvalidInput, NotFound
from agentctx.wire import SaveRequest


def test_many_saves_are_one_request() -> None:
    requests = [SaveRequest(collection="knowledge", key=key, content="x") for key in "ab"]

    body = json.loads(calls.save_many(requests).body or b"")

    assert [each["key"] for each in body["entries"]] == ["a", "b"]


def test_an_edit_omits_unchanged_fields() -> None:
    call = by_key.edit("id", content="new", if_version=3)

    assert json.loads(call.body or b"") == {"content": "new", "if_version": 3}


def test_an_edit_names_the_fields_to_clear() -> None:
    call = by_key.edit("id", fix=None, clear=["source"])

    assert json.loads(call.body or b"") == {"clear": ["source"]}


def test_ids_are_quoted_in_the_path() -> None:
    assert by_key.get("a/../b?c#d", None).path == "/v1/entries/a%2F..%2Fb%3Fc%23d"
    assert by_key.forget("é", 2).path == "/v1/entries/%C3%A9?if_version=2"


@pytest.mark.parametrize("entry_id", ["", ".", ".."])
def test_an_id_that_would_name_another_route_is_refused(entry_id: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid entry id"):
        by_key.forget(entry_id, None)


def test_a_list_repeats_the_collection_parameter() -> None:
    call = calls.list_entries(namespace="a b", collections=["knowledge", "learning"], session=None, limit=2)

    assert call.path == "/v1/entries?namespace=a+b&collection=knowledge&collection=learning&limit=2"
    assert calls.list_entries().path == "/v1/entries"


@pytest.mark.parametrize("text", ["\ud800", "ab\udcff"])
def test_text_that_is_not_unicode_is_refused_before_it_is_sent(text: str) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        calls.search(text)
    with pytest.raises(InvalidInput, match="lone surrogate"):
        calls.list_entries(namespace=text)
    with pytest.raises(InvalidInput, match="lone surrogate"):
        by_key.get(text, None)


def test_a_number_without_json_form_is_refused() -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        calls.search("q", max_distance=float("nan"))


def test_only_idempotent_calls_are_repeatable() -> None:
    save = SaveRequest(collection="knowledge", key="k", content="c")
    repeatable: list[ApiCall[Any]] = [
        saves.save_once(save, "k"),
        calls.save_many([save]),
        by_key.get("id", None),
        calls.list_entries(),
        calls.history("id"),
        calls.search("q"),
        calls.status(),
        calls.queue(),
        calls.ready(),
        calls.alive(),
        calls.drain(),
        calls.doctor((), offline=False),
        calls.metrics(),
    ]
    once: list[ApiCall[Any]] = [
        by_key.edit("id"),
        by_key.forget("id", None),
        calls.retry_buried(),
        calls.doctor_fix((), offline=False),
    ]

    assert [call.repeatable for call in repeatable] == [True] * len(repeatable)
    assert [call.repeatable for call in once] == [False] * len(once)


def test_a_reply_with_the_wrong_number_of_results_is_unreadable() -> None:
    request = SaveRequest(collection="knowledge", key="k", content="c")

    with pytest.raises(UnreadableReply, match="0 results for 2 entries"):
        calls.save_many([request] * 2).read(HttpReply(200, {}, b'{"results": []}'))


def test_requested_waits_are_added_to_the_timeout() -> None:
    at_once = SaveRequest(collection="knowledge", key="k", content="c")
    embedded = replace(at_once, wait="embedded")

    assert saves.save_once(at_once, "k").takes_s == 0
    assert saves.save_once(embedded, "k").takes_s == saves.EMBEDDED_WAIT_S
    assert calls.save_many([at_once, embedded]).takes_s == saves.EMBEDDED_WAIT_S
    assert by_key.edit("id", fix="f").takes_s == 0
    assert by_key.edit("id", fix="f", wait="embedded").takes_s == saves.EMBEDDED_WAIT_S
    assert calls.drain(120).takes_s == 120
    assert calls.doctor([], offline=False).takes_s >= SCAN_S
    assert calls.doctor_fix([], offline=False).takes_s >= FIX_S + 2 * SCAN_S


def test_an_examination_sends_only_given_parameters() -> None:
    assert calls.doctor((), offline=False).path == "/v1/doctor"
    assert calls.doctor(("queue", "fts"), offline=True).path == "/v1/doctor?only=queue&only=fts&offline=true"
    assert calls.doctor_fix(("fts",), offline=False).path == "/v1/doctor/fix?only=fts"


def test_metrics_are_text() -> None:
    assert calls.metrics().read(HttpReply(200, {}, b"agentctx_saves_total 3\n")) == "agentctx_saves_total 3\n"
    with pytest.raises(AgentctxError, match="HTTP 404"):
        calls.metrics().read(HttpReply(404, {}, b"no"))


def test_readiness_depends_only_on_the_status() -> None:
    read = calls.ready().read

    assert read(HttpReply(200, {}, b"")) is True
    assert read(HttpReply(503, {}, b"not json")) is False


def test_each_of_many_results_is_decoded_separately() -> None:
    body = {
        "results": [
            {"id": "x", "version": 1, "changed": False},
            {"error": {"code": "not_found", "message": "gone", "hint": ""}},
            {"error": {"code": "brand_new", "message": "odd", "hint": ""}},
        ]
    }

    reply = HttpReply(200, {}, json.dumps(body).encode())
    request = SaveRequest(collection="knowledge", key="k", content="c")
    saved, missing, odd = calls.save_many([request] * 3).read(reply)

    assert not isinstance(saved, AgentctxError)
    assert saved.changed is False
    assert isinstance(missing, NotFound)
    assert isinstance(odd, AgentctxError)
    assert odd.code == "brand_new"
