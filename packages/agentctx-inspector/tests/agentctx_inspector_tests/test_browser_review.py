"""The review in a real Chromium."""

from __future__ import annotations

from typing import Any

from agentctx import Client
from agentctx_inspector_tests.browsing import BROWSER, Browser, capture, review

pytestmark = BROWSER


def waiting(client: Client) -> list[str]:
    return [each.content for each in client.list(waiting=True).entries]


def focused(page: Any) -> str:
    """Return the text of what waits and has the focus."""
    return str(page.evaluate("document.activeElement.querySelector('.text')?.innerText ?? ''"))


def test_a_review_takes_one_key_each_and_the_next_has_the_focus(browser: Browser, client: Client) -> None:
    client.save_knowledge("walrus", "A walrus has tusks.")
    names = ("always", "merged", "edited", "forgotten", "skipped", "kept")
    ids = {name: capture(client, f"The {name} walrus.") for name in names}
    page = review(browser, client)
    page.keyboard.press("k")
    assert focused(page) == "The kept walrus.", "the first key only says which one it is about"
    page.keyboard.press("k")
    page.wait_for_selector("text=Kept: answers may contain it")
    assert focused(page) == "The skipped walrus."
    page.keyboard.press("s")
    assert focused(page) == "The forgotten walrus."
    page.keyboard.press("f")
    page.wait_for_selector("text=Forgotten: it is erased")
    assert focused(page) == "The edited walrus."
    page.keyboard.press("e")
    page.wait_for_selector("textarea:focus")
    page.keyboard.press("Control+A")
    page.keyboard.type("As I know it, a walrus.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Kept, as you wrote it.")
    assert focused(page) == "The merged walrus."
    page.keyboard.press("m")
    page.wait_for_selector("#merge:focus")
    page.keyboard.press("1")
    page.wait_for_selector("text=Merged")
    assert focused(page) == "The always walrus."
    page.keyboard.press("a")
    page.wait_for_selector("text=at once from now on")
    assert waiting(client) == ["The skipped walrus."]
    assert client.get(ids["edited"]).content == "As I know it, a walrus."
    merged = [each.content for each in client.iterate() if each.content.endswith("\n\nThe merged walrus.")]
    assert len(merged) == 1


def test_always_holds_until_it_is_taken_back(browser: Browser, client: Client) -> None:
    capture(client, "A first walrus.")
    page = review(browser, client)
    page.click("text=Always from codex here")
    page.wait_for_selector("text=at once from now on")
    capture(client, "A later walrus.")
    assert waiting(client) == []
    page.click("text=Let it wait")
    page.wait_for_selector("text=captured from now on.")
    capture(client, "The last walrus.")
    assert waiting(client) == ["The last walrus."]


def test_keys_do_nothing_where_somebody_types_or_holds_them(browser: Browser, client: Client) -> None:
    for number in range(3):
        capture(client, f"Walrus {number}.")
    page = review(browser, client)
    page.keyboard.press("s")
    for key in ("Control+k", "Alt+f", "Shift+Tab", "x"):
        page.keyboard.press(key)
    page.evaluate(
        """document.querySelector('[data-entry]').dispatchEvent(
            new KeyboardEvent('keydown', {key: 'f', bubbles: true, repeat: true}))"""
    )
    page.click("a:text-is('Edit') >> nth=0")
    page.wait_for_selector("textarea:focus")
    page.keyboard.type("kfams")
    assert "kfams" in page.input_value("textarea")
    assert len(waiting(client)) == 3


def test_the_later_of_two_tabs_says_what_the_other_did(browser: Browser, client: Client) -> None:
    entry = capture(client, "The walrus.")
    first = review(browser, client)
    second = first.context.new_page()
    browser.watch(second)
    second.goto(first.url)
    second.click("a:text-is('Edit')")
    second.fill("textarea", "What I wrote about the walrus.")
    first.click("button:text-is('Keep')")
    first.wait_for_selector("text=Kept: answers may contain it")
    second.click("text=Save and keep")
    second.wait_for_selector("text=It does not wait any more")
    assert second.input_value("textarea") == "What I wrote about the walrus."
    second.click("text=Save as a new version")
    second.wait_for_selector("text=Saved as a new version.")
    assert client.get(entry).content == "What I wrote about the walrus."


def test_a_review_works_without_javascript(browser: Browser, client: Client) -> None:
    client.save_knowledge("whale", "A whale eats krill.")
    for name in ("merged", "edited", "forgotten", "kept"):
        capture(client, f"The {name} whale.")
    page = review(browser, client, java_script_enabled=False)
    page.click("button:text-is('Keep') >> nth=0")
    assert "Kept: answers may contain it" in page.inner_text("main")
    page.click("#next >> button:text-is('Forget')")
    page.click("#next >> a:text-is('Edit')")
    page.fill("textarea", "As I know it, a whale.")
    page.click("text=Save and keep")
    page.click("#next >> a:text-is('Merge')")
    page.click("text=Merge into this one >> nth=0")
    assert "Merged" in page.inner_text("main")
    assert waiting(client) == []
    texts = [each.content for each in client.iterate()]
    assert len(texts) == 3
    assert sum(each.endswith("\n\nThe merged whale.") for each in texts) == 1
