"""Forms over stdio: a real bridge and daemon, and a client that answers, cancels, lies or stays silent."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from agentctx import Client
from agentctx.agents.mcp import bridge as bridge_module
from agentctx.agents.mcp.asking import UNANSWERED, Form
from agentctx.agents.mcp.bridge import MAX_CALLS, OpenForms
from tests.agents.bridge_process import BridgeProcess
from tests.end_to_end.daemon_process import DaemonProcess

pytestmark = pytest.mark.process
Start = Callable[..., BridgeProcess]
Json = dict[str, Any]
WAITS = "The whale eats krill."


@pytest.fixture
def client(daemon: DaemonProcess, start_bridge: Start) -> BridgeProcess:
    """A bridge whose client shows forms."""
    bridge = start_bridge("--socket", str(daemon.socket), "--namespace", "p", "--agent", "codex")
    capabilities = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}}
    assert "review" not in json.dumps(bridge.ask("tools/list"))
    bridge.ask("initialize", capabilities)
    return bridge


def call(bridge: BridgeProcess, call_id: object, tool: str, **arguments: Any) -> None:
    params = {"name": tool, "arguments": arguments}
    bridge.send({"jsonrpc": "2.0", "id": call_id, "method": "tools/call", "params": params})


def answer(bridge: BridgeProcess, form: Json, decision: str, **more: Any) -> None:
    result = {"action": "accept", "content": {"decision": decision, **more}}
    bridge.send({"jsonrpc": "2.0", "id": form["id"], "result": result})


def form_of(bridge: BridgeProcess) -> Json:
    message = bridge.receive()
    assert message["method"] == "elicitation/create", message
    return message


def text_of(bridge: BridgeProcess) -> str:
    return str(bridge.receive()["result"]["content"][0]["text"])


def saved(daemon: DaemonProcess, key: str) -> str:
    with daemon.client() as memory:
        return memory.save("knowledge", namespace="p", key=key, content=f"Fact {key}.", agent="codex").id


def capture(memory: Client, content: str) -> str:
    fields: Json = {"session": "s", "agent": "claude-code", "origin": "capture", "remember": "review"}
    return memory.save("observation", namespace="p", content=content, **fields).id


def test_each_answer_reaches_the_call_that_asked(daemon: DaemonProcess, client: BridgeProcess) -> None:
    """More forms are open than calls may run, and others are answered meanwhile."""
    keys = [f"k{number}" for number in range(MAX_CALLS + 2)]
    ids = {key: saved(daemon, key) for key in keys}
    forms = {}
    for key in keys:
        call(client, key, "forget", id=ids[key])
        form = form_of(client)
        assert f"“Fact {key}.”" in form["params"]["message"]
        forms[key] = form
    assert "Fact k0" in client.tool("search", query="Fact k0")[0]
    client.send(
        {"jsonrpc": "2.0", "id": "form-0", "result": {"action": "accept", "content": {"decision": "forget"}}}
    )
    for key in reversed(keys):
        answer(client, forms[key], "keep" if key == "k3" else "forget")
        answer(client, forms[key], "forget")  # again, which counts for nothing
        reply = client.receive()
        assert reply["id"] == key
        told = reply["result"]["content"][0]["text"]
        assert told.startswith("Nothing was changed" if key == "k3" else f"Forgotten: {ids[key]}")
    with daemon.client() as memory:
        assert [each.id for each in memory.list(namespace="p").entries] == [ids["k3"]]


def test_a_cancelled_call_changes_nothing_and_has_no_reply(
    daemon: DaemonProcess, client: BridgeProcess
) -> None:
    entry = saved(daemon, "k")
    call(client, 7, "forget", id=entry)
    form = form_of(client)
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    withdrawn = client.receive()
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", form["id"])
    answer(client, form, "forget")
    assert client.ask("ping")["result"] == {}
    with daemon.client() as memory:
        assert memory.get(entry).content == "Fact k."


def test_a_client_that_goes_away_ends_its_open_forms(daemon: DaemonProcess, client: BridgeProcess) -> None:
    entry = saved(daemon, "k")
    call(client, 7, "forget", id=entry)
    form_of(client)
    assert client.end() == 0  # waits a minute at most
    with daemon.client() as memory:
        assert memory.get(entry).content == "Fact k."


def test_an_error_of_the_client_is_no_consent(daemon: DaemonProcess, client: BridgeProcess) -> None:
    call(client, 7, "forget", id=saved(daemon, "k"))
    client.send({"jsonrpc": "2.0", "id": form_of(client)["id"], "error": {"code": -32601, "message": "no"}})
    assert client.receive()["method"] == "notifications/cancelled"
    assert text_of(client).startswith("Nothing was changed. Nobody answered")


def test_a_form_that_nobody_answers_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Json] = []
    monkeypatch.setattr(bridge_module, "ANSWER_S", 0.01)
    assert OpenForms(sent.append).ask(1, Form("a", "m", {"keep": "Keep"})).why == UNANSWERED
    assert [each["method"] for each in sent] == ["elicitation/create", "notifications/cancelled"]
    assert sent[1]["params"]["requestId"] == sent[0]["id"]


def test_no_form_is_shown_for_a_call_that_was_cancelled_before() -> None:
    sent: list[Json] = []
    questions = OpenForms(sent.append)
    questions.receive({"method": "notifications/cancelled", "params": {"requestId": 1}})
    assert questions.ask(1, Form("a", "m", {"keep": "Keep"})).choice == ""
    assert sent == []


def test_a_person_reviews_and_the_daemon_knows_how(daemon: DaemonProcess, client: BridgeProcess) -> None:
    with daemon.client() as memory:
        ids = [capture(memory, f"{WAITS} {number}") for number in range(3)]
    call(client, 7, "review")
    answer(client, form_of(client), "keep", text="The whale eats squid.")
    answer(client, form_of(client), "forget")
    answer(client, form_of(client), "stop")
    told = text_of(client)
    assert told == "The user decided: 1 kept, 1 forgotten. The user stopped the review. Still waiting: 1."
    with daemon.client() as memory:
        kept_entry = memory.get(ids[2])
        assert (kept_entry.content, kept_entry.quarantined == "waiting") == ("The whale eats squid.", False)
        assert [each.id for each in memory.list(namespace="p", waiting=True).entries] == ids[:1]
        (kept,) = [event for event in memory.audit(limit=50).events if event.kind == "keep"]
        assert kept.detail["way"] == "elicitation"


def test_nothing_but_a_server_of_mcp_may_say_that_a_form_was_accepted(daemon: DaemonProcess) -> None:
    with daemon.client() as memory:
        entry = capture(memory, WAITS)
    program = (
        "import sys; from agentctx.agents.daemon import ask\n"
        f"ask({str(daemon.socket)!r}, 'POST', '/v1/entries/{entry}/keep', "
        "{'way': 'elicitation', 'version': 1}, timeout_s=30)"
    )
    for words in ([], ["hook", "Stop"], ["mcp"]):
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "Only somebody who was asked can" in done.stderr
