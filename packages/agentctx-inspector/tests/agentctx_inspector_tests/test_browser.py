"""The pages in a real Chromium: `make test-pages` installs what this needs; without it, all is skipped."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from agentctx import Client
from agentctx.names import namespace_from
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import run_forked

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: make test-pages")
CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing: install it, then make test-pages"),
]
ROOT: Final = Path(__file__).parents[4]
AXE: Final = ROOT / ".pages" / "node_modules" / "axe-core" / "axe.min.js"
NO_MODEL: Final = '[embedding]\nprovider = "none"\n'
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
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
SIZES: Final = (360, 800, 2000)


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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
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


def capture(client: Client, content: str, **fields: Any) -> str:
    given = {"session": "s", "agent": "codex", "origin": "capture", "remember": "review", **fields}
    return client.save("observation", content, **given).id


def waiting(client: Client) -> list[str]:
    return [each.content for each in client.list(waiting=True).entries]


def review(browser: Browser, client: Client, **options: Any) -> Any:
    page = browser.page(client.open_page().url, **options)
    page.click("header >> text=Review")
    page.wait_for_selector("body:has(h1:text-is('Review')) > footer")
    return page


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


def ingest(daemon: DaemonProcess, *arguments: object) -> None:
    done = run_forked(["--socket", str(daemon.socket), "ingest", *map(str, arguments)])
    assert done.returncode == 0, done.stderr


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
        assert sorted(each.split("\n")[0] for each in files.all_inner_texts()) == [
            "gone.md withdrawn",
            "unseen.md stale",
        ]
        assert f"agentctx ingest --namespace team {disk}/unseen.md" in page.inner_text("main")
        page.click("text=Erase the withdrawn ones")
        assert f"{docs}/gone.md" in page.inner_text("main")
        page.click("text=Erase them for good")
        assert "1 memory of withdrawn files is erased" in page.inner_text("main")
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


def hrefs(page: Any, selector: str) -> list[str]:
    return list(page.locator(selector).evaluate_all("all => all.map(each => each.getAttribute('href'))"))


def violations(page: Any) -> list[str]:
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


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
