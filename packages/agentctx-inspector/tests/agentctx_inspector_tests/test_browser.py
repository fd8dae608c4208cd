"""The pages in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from agentctx import Client
from agentctx_inspector_tests.browsing import BROWSER, NO_MODEL, Browser
from tests.end_to_end.daemon_process import DaemonProcess

pytestmark = BROWSER


def test_searching_as_one_types(browser: Browser, client: Client) -> None:
    client.save_knowledge("kettle", "Descale the kettle on Mondays.", tags=["tea"])
    client.save_knowledge("printer", "The printer needs paper.")
    page = browser.page(client.open_page().url)
    page.keyboard.press("/")
    page.keyboard.type("kettle")
    page.wait_for_selector("text=1 memory for")
    assert page.url.endswith("/?q=kettle")
    assert page.locator("#results .title").all_inner_texts() == ["kettle"]
    page.click("#results >> text=tea")
    page.wait_for_selector("text=with these filters")
    assert page.url.endswith("/?tag=tea")
    page.go_back()
    assert page.input_value("#q") == "kettle"


def test_new_memories_are_offered_and_move_nothing_by_themselves(browser: Browser, client: Client) -> None:
    page = browser.page(client.open_page().url)
    titles = page.locator("#results .title")
    client.save_knowledge("first", "Nothing was here.")
    page.wait_for_selector("#results .title:text-is('first')")
    page.click("summary:has-text('Filters')")
    page.locator("input[name=agent]").focus()
    client.save_knowledge("second", "Deploy on Fridays.")
    page.wait_for_selector("text=1 new memory. Show")
    client.save_knowledge("third", "Tea is made at four.")
    page.wait_for_selector("text=2 new memories. Show")
    assert titles.all_inner_texts() == ["first"]
    assert page.evaluate("document.activeElement.name") == "agent"
    page.click("text=2 new memories. Show")
    assert titles.all_inner_texts() == ["third", "second", "first"]
    assert page.locator("#newer").is_hidden()


def test_editing_undoing_and_forgetting(browser: Browser, client: Client) -> None:
    saved = client.save_knowledge("rule", "Deploy on Fridays.")
    page = browser.page(client.open_page().url)
    page.click("text=rule")
    page.click("summary:text-is('Edit')")
    page.fill("textarea[name=content]", "Deploy on Mondays.")
    page.click("text=Save as a new version")
    page.wait_for_selector("text=Saved as a new version.")
    assert client.get(saved.id).content == "Deploy on Mondays."
    assert page.locator("ins").first.inner_text() == "Mondays."
    page.click("text=Make version 1 live again")
    page.wait_for_selector("text=is live again")
    assert client.get(saved.id).content == "Deploy on Fridays."
    page.click("summary:text-is('Forget')")
    page.click("text=Forget it for good")
    page.wait_for_selector("text=are erased")
    assert client.list().entries == []


def test_the_second_of_two_tabs_keeps_its_text_and_says_why(browser: Browser, client: Client) -> None:
    client.save_knowledge("rule", "Deploy on Fridays.")
    first = browser.page(client.open_page().url)
    first.click("text=rule")
    second = first.context.new_page()
    browser.watch(second)
    second.goto(first.url)
    for tab, text in ((first, "From the first."), (second, "From the second.")):
        tab.click("summary:text-is('Edit')")
        tab.fill("textarea[name=content]", text)
        tab.click("text=Save as a new version")
    second.wait_for_selector("text=Someone changed this memory")
    assert second.input_value("textarea[name=content]") == "From the second."
    second.click("text=Save as a new version")
    second.wait_for_selector("text=Saved as a new version.")


def test_everything_works_without_javascript(browser: Browser, client: Client) -> None:
    client.save_knowledge("kettle", "Descale the kettle on Mondays.", tags=["tea"])
    client.save_knowledge("printer", "The printer needs paper.")
    page = browser.page(client.open_page().url, java_script_enabled=False)
    page.fill("#q", "kettle")
    page.click("button:text-is('Search')")
    page.wait_for_selector("text=1 memory for")
    assert page.locator("#results .title").all_inner_texts() == ["kettle"]
    page.click("#results .title")
    page.click("text=Look through the last calls")
    assert "Where it was used" in page.inner_text("h1")
    page.go_back()
    page.click("summary:text-is('Forget')")
    page.click("text=Forget it for good")
    assert "are erased" in page.inner_text("main")


def test_a_used_link_a_stranger_and_a_forged_form_are_refused(browser: Browser, client: Client) -> None:
    saved = client.save_knowledge("rule", "Deploy on Fridays.")
    url = client.open_page().url
    home = "http://" + urlsplit(url).netloc
    page = browser.page(url)
    assert "Memories" in page.title()
    assert "agentctx ui" in browser.page(url).inner_text("main")
    assert "agentctx ui" in browser.page(f"{home}/").inner_text("main")
    with serving_evil(f"{home}/memory/{saved.id}/forget") as evil:
        page.goto(evil)
        page.click("button")
        page.wait_for_selector("text=Another page has sent this request.")
    assert client.get(saved.id).version == 1


def test_a_daemon_that_goes_away_is_noticed_and_a_new_link_leads_back(
    browser: Browser, daemon: DaemonProcess
) -> None:
    with daemon.client() as client:
        client.save_knowledge("rule", "Deploy on Fridays.")
        page = browser.page(client.open_page().url)
    page.wait_for_selector("#lost", state="hidden")
    daemon.stop()
    page.wait_for_selector("text=does not answer, or this session has ended")
    daemon.start()
    with daemon.client() as client:
        page.goto(client.open_page().url)
    page.wait_for_selector("text=Deploy on Fridays.")
    assert page.locator("#lost").is_hidden()


def test_the_links_secret_is_in_no_address_and_no_referrer(browser: Browser, client: Client) -> None:
    url = client.open_page().url
    page = browser.page(url)
    secret = urlsplit(url).path.rpartition("/")[2]
    assert urlsplit(page.url).path == "/"
    assert secret not in page.content()
    page.click("text=Health")
    assert secret not in page.evaluate("document.referrer + location.href + document.cookie")
    page.go_back()
    assert urlsplit(page.url).path == "/"


def test_many_tabs_of_one_browser_all_load_and_all_move(browser: Browser, client: Client) -> None:
    page = browser.page(client.open_page().url)
    home = page.url
    tabs = [page.context.new_page() for _ in range(9)]
    for tab in tabs:
        browser.watch(tab)
        tab.goto(f"{home}health")
    client.save_knowledge("rule", "Deploy on Fridays.")
    for tab in tabs:
        tab.wait_for_selector("[data-figure=saved]:text-is('1')")
    page.close()  # the tab that has listened for all
    client.save_knowledge("other", "Tea is made at four.")
    for tab in tabs:
        tab.wait_for_selector("[data-figure=saved]:text-is('2')")


def test_two_daemons_stay_open_in_one_browser(
    browser: Browser, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    first = make_daemon(config=NO_MODEL).start()
    second = make_daemon(tmp_path / "second", config=NO_MODEL).start()
    with first.client() as one, second.client() as two:
        one.save_knowledge("mine", "Of the first.")
        two.save_knowledge("theirs", "Of the second.")
        page = browser.page(one.open_page().url)
        home = page.url
        page.goto(two.open_page().url)
        page.wait_for_selector("text=Of the second.")
        page.goto(home)
        page.wait_for_selector("text=Of the first.")


def test_figures_move_without_a_reload(browser: Browser, client: Client) -> None:
    page = browser.page(client.open_page().url)
    page.click("text=Health")
    page.wait_for_selector("[data-rate=saved]:text-is('0')")
    client.save_knowledge("rule", "Deploy on Fridays.")
    page.wait_for_selector("[data-figure=saved]:text-is('1')")
    assert page.locator("[data-chart=saved] polyline").get_attribute("points")


def test_trying_a_question_as_one_types(browser: Browser, client: Client) -> None:
    saved = client.save_knowledge("rule", "Deploy on Fridays.")
    page = browser.page(client.open_page().url)
    page.click("text=rule")
    page.click("text=Why, or why not")
    page.type("#q", "deploy on fridays")
    page.wait_for_selector("text=It would be in the block")
    assert page.url.endswith(f"q=deploy+on+fridays&namespace=default&memory={saved.id}")


def test_another_question_is_tried_beside_a_receipt(browser: Browser, client: Client) -> None:
    client.save_knowledge("rule", "Deploy on Fridays.")
    client.context("deploy on fridays", position="tail")
    page = browser.page(client.open_page().url)
    page.click("header >> text=Calls")
    page.click("#main .title")
    receipt = page.url
    page.type("#q", "zebra")
    page.wait_for_selector("text=A call would get nothing")
    page.fill("#q", "deploy on fridays")
    page.wait_for_selector("text=A call would get 1 passage")
    assert page.url == receipt
    assert page.locator(".call >> text=Deploy on Fridays.").is_visible()


def test_what_was_typed_stays_while_the_daemon_is_gone(
    browser: Browser, client: Client, daemon: DaemonProcess
) -> None:
    client.save_knowledge("rule", "Deploy on Fridays.")
    page = browser.page(client.open_page().url)
    page.click("text=rule")
    page.click("summary:text-is('Edit')")
    page.fill("textarea[name=content]", "Typed for an hour.")
    daemon.stop()
    page.wait_for_selector("#lost", state="visible")
    page.click("text=Save as a new version")
    assert page.input_value("textarea[name=content]") == "Typed for an hour."
    assert page.locator("#lost").is_visible()


class serving_evil:  # noqa: N801 - used as a function
    """Serves, on another port, a page with a form that goes to `target`."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> str:
        import threading
        from http.server import BaseHTTPRequestHandler, HTTPServer

        form = f'<form method="post" action="{self._target}"><input name="if_version" value="1"><button>Win'

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(form.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
