"""Which namespaces a command reads and where it saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentctx.cli.scope import decide, merged
from agentctx.config.project import own_namespace
from agentctx.wire import EntryPage, NamespaceCount, NamespaceList, SearchReply
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import ID, Reply, StubDaemon, StubRequest, entry, passage, save_result

SHOP = "git:example.org/ann/shop"
HERE = [SHOP, own_namespace(), "default"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of a repository with a remote."""
    monkeypatch.delenv("AGENTCTX_NAMESPACE")
    folder = tmp_path / "my shop"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main")
    (folder / ".git/config").write_text('[remote "origin"]\n\turl = git@example.org:ann/shop.git\n')
    (folder / "src").mkdir()
    monkeypatch.chdir(folder / "src")
    return folder


def id_of(number: int) -> str:
    return f"{ID[:-1]}{number}"


class Memory:
    """Answers lists by namespace; `denied` are those that the user may not read."""

    def __init__(
        self, daemon: StubDaemon, entries: dict[str, list[Any]], denied: tuple[str, ...] = ()
    ) -> None:
        self.entries, self.denied = entries, denied
        daemon.answer("GET", "/v1/entries", self.listed)
        counts = [NamespaceCount(namespace=each, entries=len(found)) for each, found in entries.items()]
        daemon.answer("GET", "/v1/namespaces", (200, NamespaceList(namespaces=counts, more=0)))
        daemon.answer("POST", "/v1/search", self.found)

    def listed(self, request: StubRequest) -> Reply:
        (namespace,) = request.query["namespace"]
        wanted = request.query.get("key", [None])[0]
        found = [each for each in self.entries.get(namespace, []) if wanted in {None, each.key}]
        page = EntryPage(entries=found, next=None)
        return refusal() if namespace in self.denied else (200, page)

    def found(self, request: StubRequest) -> Reply:
        asked = request.body.get("namespaces") or [request.body["namespace"]]
        hits = [passage(namespace=each) for each in asked if self.entries.get(each)]
        is_denied = set(asked) & set(self.denied)
        return refusal() if is_denied else (200, SearchReply(results=hits, degraded=None))


def refusal() -> Reply:
    return 403, {"error": {"code": "access_denied", "message": "No.", "hint": "", "request_id": None}}


def test_the_environment_decides_before_the_file_and_the_file_before_the_repository() -> None:
    assert decide("mine", "project", HERE) == ["mine"]
    assert decide("", "project", HERE) == ["project"]
    assert decide(None, None, HERE) == HERE
    assert decide("dir:/home/ann/my shop", None, HERE) == ["dir-x:/home/ann/my@20shop"]


@pytest.mark.usefixtures("shop")
def test_a_repository_is_read_with_the_users_own_and_default_and_saved_to(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    Memory(daemon, {SHOP: [entry(namespace=SHOP, id=id_of(1))], "default": [entry(id=id_of(3), key="k3")]})
    assert agentctx("list") == 0
    assert [each.query["namespace"] for each in daemon.seen] == [[each] for each in HERE]
    assert [line.split()[-1] for line in agentctx.out.splitlines()[1::2]] == [id_of(3), id_of(1)]
    assert agentctx.out.count("[in ") == agentctx.out.count("    [in default] Nothing") == 1
    assert agentctx("search", "when?") == 0
    assert daemon.seen[-1].body["namespaces"] == HERE
    assert agentctx.out.count("[in ") == agentctx.out.count("[in default] ") == 1
    daemon.answer("POST", "/v1/entries", (200, save_result()))
    assert agentctx("save", "knowledge", "--key", "k", "text") == 0
    assert daemon.seen[-1].body["namespace"] == SHOP
    assert agentctx.err == f"note: saved in {SHOP}\n"


@pytest.mark.usefixtures("shop")
def test_what_the_user_names_is_read_alone(
    agentctx: Agentctx, daemon: StubDaemon, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Memory(daemon, {})
    (shop / ".agentctx.toml").write_text('namespace = "project"')
    agentctx("list", "--json")
    monkeypatch.setenv("AGENTCTX_NAMESPACE", "mine")
    agentctx("list", "--json")
    agentctx("list", "--json", "--namespace", "named", "--namespace", "other")
    read = [each.query["namespace"] for each in daemon.seen]
    assert read == [["project"], ["mine"], ["named"], ["other"]]


@pytest.mark.usefixtures("shop")
def test_a_broken_project_file_stops_only_what_would_use_it(
    agentctx: Agentctx, daemon: StubDaemon, shop: Path
) -> None:
    Memory(daemon, {})
    (shop / ".agentctx.toml").write_text('socket = "/tmp/evil.sock"')
    for command in (["list"], ["search", "x"], ["get", "k"], ["save", "knowledge", "--key", "k", "text"]):
        assert agentctx(*command) == 1
        assert ".agentctx.toml may contain only a namespace" in agentctx.err
    assert agentctx("list", "--namespace", "named") == 0


def test_a_folder_that_was_removed_is_outside_any_repository(
    agentctx: Agentctx, daemon: StubDaemon, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Memory(daemon, {})
    gone = shop / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert agentctx("list", "--json") == 0
    assert [each.query["namespace"] for each in daemon.seen] == [["default"], [own_namespace()]]


@pytest.mark.usefixtures("shop")
def test_what_the_user_may_not_read_is_left_out_unless_it_is_named(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    found = {SHOP: [entry(namespace=SHOP)]}
    Memory(daemon, found, denied=("default", own_namespace()))
    assert agentctx("list", "--json") == 0
    assert [each["id"] for each in agentctx.json["entries"]] == [ID]
    assert agentctx("search", "when?", "--json") == 0, agentctx.err
    assert [each["namespace"] for each in agentctx.json["results"]] == [SHOP]
    assert agentctx("list", "--namespace", "default", "--namespace", SHOP) == 1
    Memory(daemon, found, denied=tuple(HERE))
    assert agentctx("list") == 1


@pytest.mark.usefixtures("shop")
def test_a_key_of_two_namespaces_is_refused_with_both_names(agentctx: Agentctx, daemon: StubDaemon) -> None:
    both = {SHOP: [entry(namespace=SHOP, id=id_of(1))], "default": [entry(id=id_of(2))]}
    Memory(daemon, both)
    assert agentctx("forget", "deploy-window", "--yes") == 2
    assert f"hint: Name one namespace: --namespace {SHOP} or --namespace default.\n" in agentctx.err
    assert {each.method for each in daemon.seen} == {"GET"}


@pytest.mark.usefixtures("shop")
def test_an_imported_entry_is_named_by_its_id_and_a_key_may_look_like_one(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    imported = "e26fb8bc-1518-5aaa-8890-f1bab85a53e9"
    memory = Memory(daemon, {})
    assert agentctx("get", imported.upper()) == 1, "the stub has no entry with this id"
    assert daemon.seen[-1].path == f"/v1/entries/{imported}"
    memory.entries[SHOP] = [entry(namespace=SHOP, key=imported, id=ID)]
    agentctx("get", imported)
    assert daemon.seen[-1].path == f"/v1/entries/{ID}"


@pytest.mark.usefixtures("shop")
def test_everything_that_may_be_read_is_listed_with_its_namespace(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    Memory(
        daemon, {"team": [entry(namespace="team", id=id_of(1))], SHOP: [entry(namespace=SHOP, id=id_of(2))]}
    )
    assert agentctx("list", "--all") == 0
    assert [line.split("]")[0] for line in agentctx.out.splitlines()[2::2]] == [
        f"    [in {SHOP}",
        "    [in team",
    ]
    assert agentctx("list", "--all", "--namespace", "team") == 2


def test_pages_of_several_namespaces_are_one_list_that_misses_none() -> None:
    stored = {"a": range(9, 0, -2), "b": range(8, 0, -4), "c": ()}
    for size in (1, 2, 3, 50):
        seen: list[int] = []
        before: str | None = "~"
        while before:
            pages = [page(numbers, size, before) for numbers in stored.values()]
            whole = merged(pages, size)
            seen += [int(each.id) for each in whole.entries]
            before = whole.next
        assert seen == sorted(seen, reverse=True) == [9, 8, 7, 5, 4, 3, 1]


def page(numbers: Any, size: int, before: str) -> EntryPage:
    left = [each for each in numbers if str(each) < before]
    shown = [entry(id=str(each)) for each in left[:size]]
    return EntryPage(entries=shown, next=shown[-1].id if len(left) > size else None)
