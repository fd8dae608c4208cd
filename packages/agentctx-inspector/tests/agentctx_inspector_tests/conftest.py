"""A browser, and daemons for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctx import Client
from agentctx_inspector_tests.browsing import CHROMIUM, FLAGS, NO_MODEL, Browser
from tests.end_to_end.daemon_process import DaemonProcess


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with pytest.importorskip("playwright.sync_api").sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    browser = Browser(chromium)
    yield browser
    for context in chromium.contexts:
        context.close()
    assert browser.elsewhere == []
    assert browser.dialogs == []
    assert browser.errors == []


@pytest.fixture
def daemon(make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    return make_daemon(config=NO_MODEL).start()


@pytest.fixture
def client(daemon: DaemonProcess) -> Iterator[Client]:
    with daemon.client() as client:
        yield client


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    made: list[DaemonProcess] = []

    def make(folder: Path = tmp_path, **options: Any) -> DaemonProcess:
        folder.mkdir(exist_ok=True)
        made.append(DaemonProcess(folder, **options))
        return made[-1]

    yield make
    for daemon in made:
        daemon.end()
