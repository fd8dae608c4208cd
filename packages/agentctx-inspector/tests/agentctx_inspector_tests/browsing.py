"""What the tests in a real Chromium share: `make test-pages` installs what they need."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from agentctx import Client
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import run_forked

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
ROOT: Final = Path(__file__).parents[4]
AXE: Final = ROOT / ".pages" / "node_modules" / "axe-core" / "axe.min.js"
NO_MODEL: Final = '[embedding]\nprovider = "none"\n'
BROWSER: Final = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or find_spec("playwright") is None,
        reason="Chromium or Playwright is missing: install Chromium, then make test-pages",
    ),
]
"""Marks the tests that need a browser; without one, they are skipped."""


class Browser:
    """A browser, with what its pages asked elsewhere and the dialogs that they opened."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self.elsewhere: list[str] = []
        self.dialogs: list[str] = []
        self.errors: list[str] = []

    def page(self, url: str, **options: Any) -> Any:
        """Open a link in a new context, as another browser would."""
        context = self._chromium.new_context(**options)
        page = context.new_page()
        self.watch(page)
        page.goto(url)
        return page

    def watch(self, page: Any) -> None:
        page.on("request", lambda sent: self._note(sent.url))
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, url: str) -> None:
        if urlsplit(url).hostname != "127.0.0.1":
            self.elsewhere.append(url)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


def capture(client: Client, content: str, **fields: Any) -> str:
    given = {"session": "s", "agent": "codex", "origin": "capture", "remember": "review", **fields}
    return client.save("observation", content, **given).id


def ingest(daemon: DaemonProcess, *arguments: object) -> None:
    done = run_forked(["--socket", str(daemon.socket), "ingest", *map(str, arguments)])
    assert done.returncode == 0, done.stderr


def review(browser: Browser, client: Client, **options: Any) -> Any:
    page = browser.page(client.open_page().url, **options)
    page.click("header >> text=Review")
    page.wait_for_selector("body:has(h1:text-is('Review')) > footer")
    return page


def hrefs(page: Any, selector: str) -> list[str]:
    return list(page.locator(selector).evaluate_all("all => all.map(each => each.getAttribute('href'))"))
