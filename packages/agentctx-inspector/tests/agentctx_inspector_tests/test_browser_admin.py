"""Grants, namespaces and files in a real Chromium."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from agentctx import Client
from agentctx.names import namespace_from
from agentctx_inspector_tests.browsing import BROWSER, Browser, ingest
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import run_forked

pytestmark = BROWSER


def test_a_grant_is_given_and_taken_away(browser: Browser, daemon: DaemonProcess, tmp_path: Path) -> None:
    config = tmp_path / "agentctx.toml"
    with daemon.client() as client:
        page = browser.page(client.open_page().url)
    page.click("text=Namespaces")
    page.click("text=Give a grant")
    page.fill("[name=user]", "54321")
    page.fill("[name=to]", "team-*")
    page.click("text=Show the command")
    program, *words = shlex.split(page.inner_text(".command"))
    assert program == "agentctx"
    assert run_forked([*words, "--config", str(config)]).returncode == 0
    reload(daemon, page, "uid 54321")
    page.click("summary:has-text('Revoke')")
    before = config.read_text()
    config.write_text(before.replace(page.inner_text("details[open] pre"), ""))
    assert config.read_text() != before
    reload(daemon, page, "All others need one", without="uid 54321")


def reload(daemon: DaemonProcess, page: Any, text: str, without: str = "no such text") -> None:
    """Let the daemon read its config, and wait until the page has a text."""
    os.kill(daemon.pid, signal.SIGHUP)
    says = "async ([text, without]) => { const page = await (await fetch(location)).text(); "
    says += "return page.includes(text) && !page.includes(without); }"
    page.wait_for_function(says, arg=[text, without], polling=100)
    page.reload()


@pytest.mark.parametrize("has_script", [True, False])
def test_stale_and_withdrawn_files_are_shown_and_erased(
    browser: Browser, daemon: DaemonProcess, tmp_path: Path, has_script: bool
) -> None:
    docs, disk = tmp_path / "docs", tmp_path / "disk"
    for file in (docs / "gone.md", docs / "changed.md", disk / "unseen.md"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"What {file.name} says.")
    ingest(daemon, docs, disk, "--namespace", "team")
    (docs / "gone.md").unlink()
    (docs / "changed.md").write_text("It says something else now.")
    shutil.rmtree(disk)
    ingest(daemon, docs, "--namespace", "team")
    ingest(daemon, disk, "--namespace", "team", "--keep-missing")
    with daemon.client() as client:
        page = browser.page(client.open_page().url, java_script_enabled=has_script)
        page.click("nav >> text=Ingest")
        if not has_script:
            page.click("text=Count the files")
        page.click("td >> text=1 withdrawn files in team")
        files = page.locator("li.row")
        files.nth(1).wait_for()
        assert sorted(each.split("\n")[0] for each in files.all_inner_texts()) == [
            "gone.md withdrawn",
            "unseen.md stale",
        ]
        assert f"agentctx ingest --namespace team {disk}/unseen.md" in page.inner_text("main")
        page.click("text=Erase the withdrawn ones")
        page.wait_for_selector(f"main:has-text('{docs}/gone.md')")
        page.click("text=Erase them for good")
        page.wait_for_selector("text=1 memory of withdrawn files is erased")
        (entry,) = client.list(namespace="team", key=str(docs / "changed.md")).entries
        assert entry.content == "It says something else now."
        assert client.list(namespace="team", key=str(docs / "gone.md")).entries == []


def test_what_an_ingest_brings_is_counted_without_a_reload(
    browser: Browser, daemon: DaemonProcess, tmp_path: Path
) -> None:
    with daemon.client() as client:
        page = browser.page(client.open_page().url)
    page.click("nav >> text=Ingest")
    page.wait_for_selector("text=No file was read here yet")
    file = tmp_path / "tea.md"
    file.write_text("Tea is made at four.")
    ingest(daemon, file, "--namespace", "team")
    page.wait_for_selector("[data-moves] td >> text=team")


def test_a_namespace_is_erased_once_its_name_is_typed(browser: Browser, client: Client) -> None:
    shop = namespace_from("dir", "/home/ann/my+<shop> 100%")
    client.save_knowledge("rule", "Deploy on Fridays.", namespace=shop)
    client.save_knowledge("rule", "Deploy on Mondays.", namespace="team")
    page = browser.page(client.open_page().url)
    page.click("text=Namespaces")
    page.click(".row:has-text('my+<shop>') >> text=Erase everything")
    page.wait_for_selector("text=1 memory with all their versions")
    page.fill("[name=typed]", "team")
    page.click("text=Erase 1 memory for good")
    page.wait_for_selector("text=That is not its name.")
    page.fill("[name=typed]", "dir:/home/ann/my+<shop> 100%")
    page.click("text=Erase 1 memory for good")
    page.wait_for_selector("text=Everything in the namespace is erased")
    assert [each.namespace for each in client.namespaces().namespaces] == ["team"]
