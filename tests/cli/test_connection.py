from pathlib import Path

import pytest

from agentctx.cli.app import run
from agentctx.wire import EntryPage, ReleaseReply, SaveResult, VersionPage
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import ID, StubDaemon, entry, save_result
from tests.daemon.host.installed import FAILED, install

OTHER = "019aa000-0000-7000-8000-000000000002"


def has(daemon: StubDaemon, *ids: str) -> None:
    entries = [entry(id=each, collection="knowledge" if each == ID else "notes") for each in ids]
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=entries, next=None)))


@pytest.mark.parametrize(
    ("command", "method", "path", "reply"),
    [
        (["get"], "GET", "", entry()),
        (["history"], "GET", "/versions", VersionPage(versions=[entry()], next=None)),
        (["edit", "--content", "New."], "PATCH", "", save_result()),
        (["forget", "--dry-run"], "GET", "", entry()),
        (["release"], "POST", "/release", ReleaseReply(released=1, still_quarantined=0)),
    ],
)
def test_a_key_replaces_the_id(
    agentctx: Agentctx, daemon: StubDaemon, command: list[str], method: str, path: str, reply: object
) -> None:
    has(daemon, ID)
    daemon.answer(method, f"/v1/entries/{ID}{path}", (200, reply))
    name, *options = command
    assert agentctx(name, "deploy-window", *options, "--namespace", "team") == 0
    listed = daemon.seen[0].query
    assert (listed["key"], listed["namespace"], listed["content"]) == (["deploy-window"], ["team"], ["false"])
    assert daemon.seen[1].path == f"/v1/entries/{ID}{path}"


def test_a_key_of_a_learning_replaces_the_id(agentctx: Agentctx, daemon: StubDaemon) -> None:
    has(daemon, ID)
    result: SaveResult = save_result()
    daemon.answer("POST", f"/v1/learnings/{ID}/outcome", (200, result))
    assert agentctx("learning", "outcome", "tool:psql#1", "--success") == 0


def test_an_id_is_not_looked_up(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", f"/v1/entries/{ID}", (200, entry()))
    assert agentctx("get", ID) == 0
    assert len(daemon.seen) == 1


def test_an_ambiguous_key_lists_the_ids(agentctx: Agentctx, daemon: StubDaemon) -> None:
    has(daemon, ID, OTHER)
    assert agentctx("forget", "deploy-window", "--yes") == 2
    printed = agentctx.err
    assert "2 entries of the namespace 'default' have the key 'deploy-window'" in printed
    assert f"{ID} (knowledge in default), {OTHER} (notes in default)" in printed
    assert [seen.method for seen in daemon.seen] == ["GET"]


def test_an_unknown_key_exits_1(agentctx: Agentctx, daemon: StubDaemon) -> None:
    has(daemon)
    assert agentctx("get", "deploy-widow") == 1
    assert "No entry of the namespace 'default' has the key 'deploy-widow'" in agentctx.err


@pytest.mark.parametrize("command", [["status"], ["search", "standup"], ["get", ID], ["queue", "status"]])
def test_where_the_service_is_meant_its_state_is_said(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, says=FAILED)
    assert run(command) == 3
    said = capsys.readouterr().err
    assert "agentctx.service: failed, exit 78: /var/lib/agentctx/agentctx.db is missing" in said
    assert "sudo systemctl start agentctx" in said
    assert "agentctx serve" not in said
    assert run(["--socket", str(tmp_path / "mine"), *command]) == 3
    assert "agentctx.service" not in capsys.readouterr().err
