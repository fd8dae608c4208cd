from __future__ import annotations

import webbrowser

import pytest

from agentctx.wire import PageLink
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import StubDaemon

LINK = PageLink(url="http://127.0.0.1:4321/open/secret", port=4321)


@pytest.fixture(autouse=True)
def opened(daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    daemon.answer("POST", "/v1/ui", (200, LINK))
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    urls: list[str] = []

    def note(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    return urls


def test_it_opens_the_link_and_prints_it_as_its_last_line(agentctx: Agentctx, opened: list[str]) -> None:
    assert agentctx("ui") == 0
    assert opened == [LINK.url]
    assert agentctx.out.splitlines()[-1] == LINK.url


@pytest.mark.parametrize("option", ["--no-open", "--json"])
def test_it_can_only_print(option: str, agentctx: Agentctx, opened: list[str]) -> None:
    assert agentctx("ui", option) == 0
    assert opened == []
    assert LINK.url in agentctx.out


def test_without_a_browser_it_asks_to_open_the_link(
    agentctx: Agentctx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert agentctx("ui") == 0
    assert "no browser was found" in agentctx.err
    assert agentctx.out.splitlines()[-1] == LINK.url


def test_over_ssh_it_explains_the_forwarding(
    agentctx: Agentctx, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    assert agentctx("ui") == 0
    assert "ssh -N -L 4321:127.0.0.1:4321" in agentctx.err
    assert opened == []
