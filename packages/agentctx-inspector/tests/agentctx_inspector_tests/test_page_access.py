from __future__ import annotations

from pathlib import Path

import pytest

from agentctx_inspector.browser_user import browser_of
from agentctx_inspector.page_access import cookie_name, foreign, session_in
from agentctx_inspector.page_sessions import IDLE_S, PageSessions
from agentctx_inspector_tests.running_pages import running_pages
from tests.running_core import ME

PORT = 4321
HERE = b"127.0.0.1:4321"
ORIGIN = b"http://127.0.0.1:4321"

OURS = [
    ("GET", {b"host": HERE}),
    ("GET", {b"host": HERE, b"sec-fetch-site": b"none"}),
    ("GET", {b"host": HERE, b"sec-fetch-site": b"same-origin"}),
    ("POST", {b"host": HERE, b"origin": ORIGIN}),
    ("POST", {b"host": HERE, b"origin": ORIGIN, b"sec-fetch-site": b"same-origin"}),
]
FOREIGN = [
    ("GET", {b"host": b"localhost:4321"}),
    ("GET", {b"host": b"evil.example:4321"}),
    ("GET", {b"host": b"127.0.0.1:4322"}),
    ("GET", {b"host": b"127.0.0.1"}),
    ("GET", {b"host": b"127.0.0.1:4321.evil.example"}),
    ("GET", {}),
    ("GET", {b"host": HERE, b"origin": b"http://evil.example"}),
    ("GET", {b"host": HERE, b"sec-fetch-site": b"cross-site"}),
    ("GET", {b"host": HERE, b"sec-fetch-site": b"same-site"}),
    ("POST", {b"host": HERE}),
    ("POST", {b"host": HERE, b"origin": b"null"}),
    ("POST", {b"host": HERE, b"origin": b"http://127.0.0.1:4322"}),
    ("POST", {b"host": HERE, b"origin": b"https://127.0.0.1:4321"}),
    ("POST", {b"host": HERE, b"origin": ORIGIN, b"sec-fetch-site": b"same-site"}),
    ("DELETE", {b"host": HERE}),
]


@pytest.mark.parametrize(("method", "headers"), OURS)
def test_what_our_own_pages_send_is_admitted(method: str, headers: dict[bytes, bytes]) -> None:
    assert foreign(method, headers, PORT) is None


@pytest.mark.parametrize(("method", "headers"), FOREIGN)
def test_other_names_of_the_address_and_other_pages_are_refused(
    method: str, headers: dict[bytes, bytes]
) -> None:
    refused = foreign(method, headers, PORT)
    assert refused is not None
    assert refused.status == 403


def test_the_cookie_of_another_port_is_not_ours() -> None:
    cookies = b"agentctx-4322=theirs; agentctx-4321=ours; other=x"
    assert session_in({b"cookie": cookies}, PORT) == "ours"
    assert session_in({b"cookie": b"agentctx-4322=theirs"}, PORT) == ""
    assert session_in({b"cookie": b"\xff\x00;;="}, PORT) == ""
    for odd in (b'a={"x": [1]}', b"a b=c", b'x="open', b"\xd0\xba=1", b"plain"):
        assert session_in({b"cookie": odd + b"; agentctx-4321=ours"}, PORT) == "ours"
    assert session_in({}, PORT) == ""


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


async def test_a_link_opens_the_pages_with_a_cookie_that_scripts_and_other_sites_lack(tmp_path: Path) -> None:
    async with running_pages(tmp_path) as pages:
        assert "Nothing is saved yet" in await pages.page("/")
        link = await pages.server.link(ME)
        async with pages.browser() as other:
            opened = await other.get(link.url)
        assert opened.headers["location"] == "/"
        assert opened.headers["set-cookie"].startswith(f"{cookie_name(pages.port)}=")
        assert opened.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict")


async def test_a_used_link_no_cookie_and_other_origins_each_get_a_page_that_says_what_to_do(
    tmp_path: Path,
) -> None:
    async with running_pages(tmp_path) as pages, pages.browser() as other:
        link = await pages.server.link(ME)
        await other.get(link.url)
        other.cookies.clear()
        used = await other.get(link.url)
        stranger = await other.get("/")
        forged = await pages.http.post("/memory/x/forget", headers={"Origin": "http://evil.example"})
        rebound = await pages.http.get("/", headers={"Host": f"evil.example:{pages.port}"})
    assert [each.status_code for each in (used, stranger, forged, rebound)] == [410, 401, 403, 403]
    for reply in (used, stranger, forged, rebound):
        assert "<code>agentctx ui</code>" in reply.text
        assert_guarded(reply.headers["content-security-policy"])


async def test_the_kernel_is_asked_once_a_connection(tmp_path: Path) -> None:
    asked: list[int] = []

    def browser(client_port: int, port: int) -> int | None:
        asked.append(client_port)
        return browser_of(client_port, port)

    async with running_pages(tmp_path, browser=browser) as pages:
        for _ in range(3):
            await pages.page("/")
        async with pages.browser() as other:
            assert (await other.get("/")).status_code == 401
    assert len(asked) == len(set(asked)) == 2


async def test_asking_for_the_head_of_a_link_does_not_use_it_up(tmp_path: Path) -> None:
    async with running_pages(tmp_path) as pages, pages.browser() as other:
        link = await pages.server.link(ME)
        assert (await other.head(link.url)).status_code == 410
        assert (await other.get(link.url)).status_code == 303


async def test_every_reply_forbids_other_sources_frames_and_caches(tmp_path: Path) -> None:
    async with running_pages(tmp_path) as pages:
        for path in ("/", "/memory/unknown", "/nothing", "/static/page.js"):
            headers = (await pages.http.get(path)).headers
            assert_guarded(headers["content-security-policy"])
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
        assert (await pages.http.get("/")).headers.get_list("cache-control") == ["no-store"]


async def test_a_session_is_gone_after_an_hour(tmp_path: Path, clock: list[float]) -> None:
    sessions = PageSessions(lambda: clock[0])
    async with running_pages(tmp_path, sessions=sessions) as pages:
        assert (await pages.http.get("/")).status_code == 200
        clock[0] = IDLE_S
        assert (await pages.http.get("/")).status_code == 401


def assert_guarded(policy: str) -> None:
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
