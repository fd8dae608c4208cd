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
GRANTS: Final = """
[[access.grants]]
uid = 1001
namespaces = ["team", "git:*"]
rights = "write"

[[access.grants]]
gid = 2000
namespaces = ["*"]
rights = "read"
"""
FOLDER: Final = Path(tempfile.gettempdir()) / "team-handbook"
"""Its path is in a picture."""
GONE, UNSEEN = "duties/on-call.md", "notes/retrospective.md"
FILES: Final = {
    "duties/releases.md": "# Releases\n\nNothing goes to production on a Friday.\n",
    "duties/backups.md": "# Backups\n\nThe nightly backup is restored every first Monday.\n",
    GONE: "# On call\n\nThe pager changes hands on Mondays at ten.\n",
    "notes/vendors.md": "# Vendors\n\nThe contract for the mail service ends in March.\n",
    UNSEEN: "# Retrospective\n\nWe merge smaller changes.\n",
}
HOME: Final = "/home/ann/agentctx"
BEATS: Final = 15
BEAT_MS: Final = 1_500
WAITING: Final = (
    ("codex", "The staging database is reset every night at two; do not keep test data there."),
    ("claude-code", "pytest fails in the container for lack of shared memory; run it with --shm-size=1g."),
    ("codex", "Maya moved the deploy window: on Fridays it closes at noon."),
)
QUESTION: Final = "may I deploy to production on a friday?"


@contextmanager
def daemon(folder: Path) -> Iterator[Client]:
    """A daemon with the memories of the demo, one of which was corrected, and one call."""
    socket = folder / "agentctx.sock"
    (folder / "agentctx.toml").write_text(GRANTS)
    config = ["--config", folder / "agentctx.toml"]
    command = [PROGRAM, "serve", *config, "--data-dir", folder / "data", "--socket", socket]
    with (
        subprocess.Popen(command, stderr=subprocess.DEVNULL) as process,
        Client(socket, start_timeout_s=60) as client,
    ):
        try:
            wait_for_model(client)
            read_files(client, FOLDER)
            for memory in MEMORIES.values():
                client.save(memory.collection, memory.content, **memory.fields)
            rule = client.get(key="deploy-window")
            client.edit(
                rule.id, content=rule.content.replace("three o'clock", "noon"), tags=["operations", "release"]
            )
            client.drain()
            client.context(QUESTION, position="tail", conversation="release planning")
            for agent, text in WAITING:
                client.save(
                    "observation", text, session="monday", agent=agent, origin="capture", remember="review"
                )
            yield client
        finally:
            process.terminate()
            shutil.rmtree(FOLDER)


def read_files(client: Client, folder: Path) -> None:
    """Let `agentctx ingest` read a folder, in which then a file is gone and another cannot be seen."""
    ingest = [PROGRAM, "--socket", client.socket, "ingest", "--quiet", "--namespace", "team"]
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run([*ingest, folder], check=True, capture_output=True)
    for name in (GONE, UNSEEN):
        (folder / name).unlink()
    subprocess.run([*ingest, folder / GONE], check=True, capture_output=True)
    subprocess.run([*ingest, "--keep-missing", folder / UNSEEN], check=True, capture_output=True)


def addresses(client: Client) -> dict[str, str]:
    """Return the address of each page by the name of its picture."""
    rule = client.get(key="deploy-window")
    (call,) = client.injections(1).injections
    return {
        "ui-memories": "/",
        "ui-memory": f"/memory/{rule.id}",
        "ui-call": f"/calls/{call.id}",
        "ui-ingest": "/ingest",
        "ui-namespaces": "/namespaces",
        "ui-review": "/review",
        "ui-health": "/health",
    }


def work(client: Client, page: Any) -> None:
    """Do what moves the charts, for as long as a picture needs."""
    for beat in range(BEATS):
        for number in range(1 + beat % 3):
            client.save_observation(
                "rehearsal", f"Rehearsal {beat}.{number}: the release train left on time."
            )
        client.search(f"{QUESTION} {beat}")
        page.wait_for_timeout(BEAT_MS)


def of_nobody(page: Any, folder: Path) -> None:
    """Name folders that are no machine's."""
    page.evaluate(
        """([ours, shown]) => {
          const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(ours, shown);
        }""",
        [str(folder), HOME],
    )


def record(browser: Any, client: Client, folder: Path) -> None:
    """Write one picture of each page in light colours, and of the first also in dark ones."""
    for scheme in ("dark", "light"):  # health last: its charts are moved by more memories
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
                work(client, page)
            if name == "ui-ingest":
                page.wait_for_selector("[data-moves] table")
            page.wait_for_load_state("load")
            of_nobody(page, client.socket.parent)
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
