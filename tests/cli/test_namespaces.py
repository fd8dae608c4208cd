from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx.cli.namespaces import namespace_in
from agentctx.wire import EntryPage
from tests.client.stub_daemon import StubDaemon


def test_the_environment_comes_before_the_project(tmp_path: Path) -> None:
    assert namespace_in({}, None) == "default"
    assert namespace_in({}, tmp_path) == "default"
    (tmp_path / ".agentctx.toml").write_text('namespace = "project"')
    assert namespace_in({}, tmp_path) == "project"
    assert namespace_in({"AGENTCTX_NAMESPACE": ""}, tmp_path) == "project"
    assert namespace_in({"AGENTCTX_NAMESPACE": "mine"}, tmp_path) == "mine"


def test_a_command_line_names_the_namespace_before_all(
    agentctx: Callable[..., int], daemon: StubDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))
    (tmp_path / ".agentctx.toml").write_text('namespace = "project"')
    monkeypatch.chdir(tmp_path)
    agentctx("list")
    monkeypatch.setenv("AGENTCTX_NAMESPACE", "mine")
    agentctx("list")
    agentctx("list", "--namespace", "named")
    assert [seen.query["namespace"] for seen in daemon.seen] == [["project"], ["mine"], ["named"]]


def test_a_broken_project_file_stops_only_what_would_use_it(
    agentctx: Callable[..., int],
    daemon: StubDaemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))
    (tmp_path / ".agentctx.toml").write_text('socket = "/tmp/evil.sock"')
    monkeypatch.chdir(tmp_path)
    assert agentctx("list") == 1
    assert ".agentctx.toml may hold a namespace and nothing else" in capsys.readouterr().err
    assert agentctx("list", "--namespace", "named") == 0
