"""Every page in a real Chromium: hostile texts, accessibility, and widths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from agentctx import Client
from agentctx.names import namespace_from
from agentctx_inspector_tests.browsing import AXE, BROWSER, NO_MODEL, Browser, capture, hrefs, ingest, review
from tests.end_to_end.daemon_process import DaemonProcess

pytestmark = BROWSER
HOSTILE: Final = (
    "<script>alert(1)</script>",
    "<img src=https://evil.example/x onerror=alert(2)>",
    "\"><svg onload=alert(3)>'",
    "{{ 7 * 7 }} ${alert(4)} javascript:alert(5)",
    "</textarea></title></style><script src=//evil.example></script>",
    "\u202egnp.exe\u2066 \u0007 <!-- --> ]]> &lt;b&gt;",
)
GRANTS: Final = (
    '[[access.grants]]\nuid = 54321\nnamespaces = ["default", "git:github.com/ann/a-long-name"]\n'
    'rights = "write"\n'
)
SIZES: Final = (360, 800, 2000)


def test_hostile_texts_run_nothing_and_load_nothing(
    browser: Browser, daemon: DaemonProcess, client: Client, tmp_path: Path
) -> None:
    files = tmp_path / HOSTILE[0].replace("/", "")
    files.mkdir()
    for text in HOSTILE:
        (files / text.replace("/", "")).write_text(text)
    for text in HOSTILE[:2]:
        ingest(daemon, files, "--namespace", namespace_from("dir", text))
    for file in files.iterdir():
        file.unlink()
    ingest(daemon, files, "--namespace", namespace_from("dir", HOSTILE[0]))
    for number, text in enumerate(HOSTILE):
        name = "".join(filter(str.isprintable, text))[:60]
        fields: Any = {"tags": [name], "cues": [name], "source": name, "agent": name, "session": name}
        client.save("knowledge", text, key=f"{number} {name}", **fields)
        capture(client, text, agent=name, session=name)
    page = review(browser, client)
    held = hrefs(page, "article a[data-key=e]")
    assert len(held) == len(HOSTILE)
    page.goto("http://" + urlsplit(page.url).netloc)
    addresses = ["/review?agent=<b>x&before=<b>&done=<b>", *held]
    addresses += ["/ingest", "/ingest?state=marked", "/ingest/counts", "/ingest?path=<b>&namespace=<b>"]
    addresses += ["/namespaces", "/namespaces?q=<script>alert(7)</script>&user=<b>&to=<b>&right=read"]
    addresses += ["/namespaces/forget?namespace=<b>", "/ingest/forget?namespace=<b>"]
    addresses += ["/?by=agent", "/?by=session", "/?q=alert", "/?q=<script>alert(6)</script>", "/?since=<b>x"]
    titles = page.locator("#results a.title").evaluate_all(
        "all => all.map(each => each.getAttribute('href'))"
    )
    assert len(titles) == 2 * len(HOSTILE)
    for address in [*addresses, *titles]:
        page.goto("http://" + urlsplit(page.url).netloc + address)
        for summary in page.locator("main summary").all():
            summary.click()
        assert page.locator("main script, main iframe, main object, main svg, main img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_fits_every_width(
    scheme: str, browser: Browser, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is missing: make test-pages")
    daemon = make_daemon(config=NO_MODEL + GRANTS).start()
    file = tmp_path / f"{'long-name-' * 20}.md"
    file.write_text("Tea is made at four.")
    ingest(daemon, file)
    file.unlink()
    ingest(daemon, file)
    with daemon.client() as client:
        check_every_page(scheme, browser, client)


def check_every_page(scheme: str, browser: Browser, client: Client) -> None:
    client.save_knowledge(
        "rule", "Deploy on Fridays. " * 80, tags=["ops"], cues=["when to deploy?"], agent="a"
    )
    saved = client.save_knowledge("rule", "Deploy on Mondays. " * 80, category="rule")
    client.save_learning("make test", error_pattern="E" * 300, fix="make clean")
    held = capture(client, "Deploy on Sundays. " * 80)
    capture(client, "W" * 300, agent="another", namespace="other")
    context = client.context("deploy on mondays", position="tail")
    assert context.injection_id
    page = browser.page(client.open_page().url, color_scheme=scheme, bypass_csp=True)
    home = "http://" + urlsplit(page.url).netloc
    refused = browser.page(f"{home}/", color_scheme=scheme, bypass_csp=True)
    assert violations(refused) == []
    receipts = (f"/calls/{context.injection_id}", f"/calls/ask?q=deploy+on+mondays&memory={saved.id}")
    memories = (f"/memory/{saved.id}", "/?q=deploy&by=agent&tag=ops", "/memory/nothing")
    waiting = (f"/review/{held}", "/review?done=keep&after=z")
    grants = ("/namespaces?user=ann&to=team&right=write", "/namespaces/forget?namespace=default")
    files = ("/ingest?state=marked&namespace=default", "/ingest/counts", "/ingest/forget?namespace=default")
    page.goto(f"{home}/health")
    page.click("text=Examine now")
    for path in (*pages_of(page), *memories, *waiting, *receipts, *grants, *files):
        page.goto(home + path)
        for summary in page.locator("main summary").all():
            summary.click()
        page.wait_for_load_state("load")
        for width in SIZES:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        assert violations(page) == [], path


def pages_of(page: Any) -> list[str]:
    """Return the addresses in the navigation."""
    return hrefs(page, "header nav a")


def violations(page: Any) -> list[str]:
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]
