"""The pages of somebody who is no admin of the daemon, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctx.config.access import AccessSettings
from agentctx.service.base import Peer
from agentctx_inspector_tests.browsing import AXE, CHROMIUM, FLAGS
from agentctx_inspector_tests.running_pages import running_pages
from tests.running_core import save

playwright = pytest.importorskip("playwright.async_api", reason="Playwright is missing: make test-pages")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or not AXE.exists(), reason="make test-pages installs what is missing"
    ),
]
ANN = Peer(pid=1, uid=54_321, gid=54_321)
GRANT = {"uid": ANN.uid, "namespaces": ["team"], "rights": "read"}


async def test_a_reader_is_told_what_is_refused(tmp_path: Path) -> None:
    access = AccessSettings.model_validate({"grants": [GRANT]})
    async with (
        running_pages(tmp_path, access=access, owners=frozenset(), peer=ANN) as pages,
        playwright.async_playwright() as started,
    ):
        await save(pages.core, namespace="team", key="rule", content="Deploy on Fridays.")
        browser = await started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(bypass_csp=True)
        link = await pages.server.link(ANN)
        await page.goto(link.url)
        for name, refusal in (
            ("Namespaces", "only admins of the daemon may do that. That includes"),
            ("Ingest", "No file was read here yet."),
        ):
            await page.click(f"nav >> text={name}")
            await page.wait_for_selector(f"text={refusal}")
            await page.evaluate(AXE.read_text(encoding="utf-8"))
            assert (await page.evaluate("axe.run()"))["violations"] == []
        await page.goto(f"http://127.0.0.1:{pages.port}/namespaces")
        assert await page.locator("text=Give a grant").count() == 0
        assert await page.locator("text=Erase everything").count() == 0
        await page.goto(f"http://127.0.0.1:{pages.port}/namespaces/forget?namespace=team")
        await page.wait_for_selector("text=you may not write in the namespace 'team'")
        await browser.close()
