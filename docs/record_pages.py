"""`make page-screens`: pictures of the pages of `agentctx ui`, in Chromium, with the memories of the demo.

The first argument is the folder to write to. The daemon is started for them, in a folder that is removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from agentctx import Client
from agentctx.cli.demo import wait_for_model
from agentctx.cli.demo_memories import MEMORIES

PROGRAM: Final = Path(sys.executable).with_name("agentctx")
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SIZE: Final = {"width": 1280, "height": 800}
QUESTION: Final = "may I deploy to production on a friday?"


@contextmanager
def daemon(folder: Path) -> Iterator[Client]:
    """A daemon with the memories of the demo, one of which was corrected, and one call."""
    socket = folder / "agentctx.sock"
    command = [PROGRAM, "serve", "--data-dir", folder / "data", "--socket", socket]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process, Client(socket) as client:
        try:
            wait_for_model(client)
            for memory in MEMORIES.values():
                client.save(memory.collection, memory.content, **memory.fields)
            rule = client.get(key="deploy-window")
            client.edit(
                rule.id, content=rule.content.replace("three o'clock", "noon"), tags=["operations", "release"]
            )
            client.drain()
            client.context(QUESTION, position="tail", conversation="release planning")
            yield client
        finally:
            process.terminate()


def addresses(client: Client) -> dict[str, str]:
    """Return the address of each page by the name of its picture."""
    rule = client.get(key="deploy-window")
    (call,) = client.injections(1).injections
    return {
        "ui-memories": "/",
        "ui-memory": f"/memory/{rule.id}",
        "ui-call": f"/calls/{call.id}",
        "ui-health": "/health",
    }


def record(browser: Any, client: Client, folder: Path) -> None:
    """Write one picture of each page in light colours, and of the first also in dark ones."""
    for scheme in ("light", "dark"):
        page = browser.new_context(viewport=SIZE, color_scheme=scheme, device_scale_factor=1).new_page()
        page.goto(client.open_page().url)
        home = f"http://{urlsplit(page.url).netloc}"
        for name, address in addresses(client).items():
            if scheme == "dark" and name != "ui-memories":
                continue
            page.goto(home + address)
            if name == "ui-health":
                page.click("text=Examine now")
                page.wait_for_selector("text=Examined")
            page.wait_for_load_state("load")
            suffix = "" if scheme == "light" else "-dark"
            page.screenshot(path=folder / f"{name}{suffix}.png")


def main() -> None:
    """Record all pictures."""
    os.environ.pop("AGENTCTX_SOCKET", None)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as folder,
        daemon(Path(folder)) as client,
        sync_playwright() as started,
    ):
        record(started.chromium.launch(executable_path=chromium, args=FLAGS), client, Path(sys.argv[1]))


main()
