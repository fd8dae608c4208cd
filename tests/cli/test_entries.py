from dataclasses import asdict, replace

import pytest

from agentctx.cli.entries import diff_lines, file_record, page_lines
from agentctx.cli.layout import width
from agentctx.wire import EntryPage, FileState, ForgetAllReply, ForgetReply, RewriteReply, VersionPage
from tests.cli.conftest import Agentctx
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon, entry


def test_get_shows_the_full_content(agentctx: Agentctx, daemon: StubDaemon) -> None:
    content = "first line\n\n" + "long " * 100 + "\x1b[31m日本"
    daemon.answer("GET", f"/v1/entries/{ID}", (200, entry(content=content)))

    assert agentctx("get", ID) == 0

    head, _, body = agentctx.out.partition("\n\n")
    assert dict(line.split(maxsplit=1) for line in head.splitlines()) == {
        "id": ID,
        "version": "2",
        "collection": "knowledge",
        "key": "deploy-window",
        "namespace": "default",
        "category": "rule",
        "tags": "ops, release",
        "origin": "agent, trust agent, uid 1000",
        "created": "2026-11-20T10:00:00.000Z",
        "updated": "2026-11-21T10:00:00.000Z",
        "embedding": "done",
    }
    assert body == content.replace("\x1b", "\\x1b") + "\n"


def test_get_abbreviates_a_file(agentctx: Agentctx, daemon: StubDaemon) -> None:
    record = {"digest": "ab" * 32, "size": 980, "modified": 1, "part": 1, "parts": 2, "unit": "line"}
    attributes = {"source": "notes.md", "file": {**record, "places": [[0, 1]] * 5_000}}
    daemon.answer("GET", f"/v1/entries/{ID}", (200, entry(attributes=attributes)))

    assert agentctx("get", ID) == 0
    assert "file        part 1 of 2, 980 B, sha256 abababababab\n" in agentctx.out


def test_get_can_show_an_earlier_version_as_json(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", f"/v1/entries/{ID}", (200, entry(version=1, live=False)))

    assert agentctx("get", ID, "--version", "1", "--json") == 0

    assert daemon.seen[0].query == {"version": ["1"]}
    assert agentctx.json == asdict(entry(version=1, live=False))


def test_get_of_an_unknown_id_exits_1(agentctx: Agentctx) -> None:
    assert agentctx("get", "unknown") == 1
    assert agentctx.err.startswith("error: ")


def test_list_is_aligned_and_shows_the_next_cursor(agentctx: Agentctx, daemon: StubDaemon) -> None:
    page = EntryPage(
        entries=[
            entry(),
            entry(id="x2", collection="observation", key=None, session="日誌", content="wide\ncontent"),
        ],
        next="c2",
    )
    daemon.answer("GET", "/v1/entries", (200, page))

    assert agentctx("list", "-c", "knowledge", "-c", "observation", "--limit", "2") == 0

    assert agentctx.out.splitlines() == [
        "UPDATED                   COLLECTION   NAME           ID",
        f"2026-11-21T10:00:00.000Z  knowledge    deploy-window  {ID}",
        "    Nothing goes to production on a Friday. Ask the operator on call.",
        "2026-11-21T10:00:00.000Z  observation  日誌           x2",
        "    wide content",
    ]
    assert agentctx.err == "note: there are more: --cursor c2\n"
    assert daemon.seen[0].query["collection"] == ["knowledge", "observation"]


@pytest.mark.parametrize("key", ["deploy-window", "my key 部署窗口 🚀🚀", "k" * 256])
def test_keys_are_whole_on_a_standard_terminal(key: str) -> None:
    page = EntryPage(entries=[entry(key=key), entry(key=None, session="s1")], next=None)
    lines = page_lines(page, 80)
    assert lines[1] == f"2026-11-21 10:00  knowledge   {key}"
    assert lines[3] == f"2026-11-21 10:00  knowledge   {ID}"
    assert all(width(line) <= 80 for line in (*lines[2:], *lines[1 : len(key) < 50]))


def test_a_wide_terminal_shows_key_and_id_where_they_fit() -> None:
    assert page_lines(EntryPage(entries=[entry()], next=None), 120)[1].endswith(f"deploy-window  {ID}")
    long = EntryPage(entries=[entry(key="k" * 100)], next=None)
    assert page_lines(long, 120)[1] == f"2026-11-21 10:00  knowledge   {'k' * 100}"
    assert page_lines(long, None)[1].endswith(ID)


def test_an_empty_list_prints_no_data(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[], next=None)))

    assert agentctx("list") == 0
    assert (agentctx.out, agentctx.err) == (
        "",
        "note: no entries found; `agentctx save --help` shows how to save one\n",
    )
    assert agentctx("list", "--json") == 0
    assert agentctx.json == {"entries": [], "next": None}


def test_list_truncates_contents_to_the_terminal(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[entry(content="word " * 50)], next=None)))
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")

    assert agentctx("list") == 0

    last = terminal.written().splitlines()[-1]
    assert last == "    " + ("word " * 7).rstrip() + "…"


@pytest.fixture
def with_entry_to_forget(daemon: StubDaemon) -> StubDaemon:
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, ForgetReply(id=ID, versions=2)))
    return daemon


def test_forget_without_a_terminal_needs_yes(agentctx: Agentctx, with_entry_to_forget: StubDaemon) -> None:
    assert agentctx("forget", ID) == 2
    assert "--yes" in agentctx.err
    assert not with_entry_to_forget.seen
    assert agentctx("forget", ID, "--yes") == 0
    assert agentctx.out == f"forgotten  {ID}  versions 2\n"
    assert agentctx("forget", ID, "--json", "-y") == 0
    assert agentctx.json.items() >= {"id": ID, "versions": 2}.items()


def test_forget_has_a_dry_run(agentctx: Agentctx, with_entry_to_forget: StubDaemon) -> None:
    with_entry_to_forget.answer("GET", f"/v1/entries/{ID}", (200, entry()))
    assert agentctx("forget", ID, "--dry-run") == 0
    assert agentctx.out == f"would be forgotten  {ID}  deploy-window  versions 1 to 2\n"
    assert [seen.method for seen in with_entry_to_forget.seen] == ["GET"]


def test_forget_says_where_the_text_may_still_be(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = ForgetReply(
        id=ID,
        versions=1,
        copies=["copy-1"],
        copies_forgotten=["copy-2"],
        parts=["part-2"],
        backups=3,
        backups_until="2026-12-01",
        remains=["dumps made before", "unused space"],
    )
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, reply))
    assert agentctx("forget", ID, "--with-copies", "--yes") == 0
    assert "copy-2  a captured reply that repeated it" in agentctx.out
    assert "kept  the other part of the turn: part-2" in agentctx.out
    assert "copy-1" in agentctx.err
    assert "3 automatic backups may hold it until about 2026-12-01" in agentctx.err
    assert "deleted data may remain in dumps made before\n" in agentctx.err
    assert "unused space" in agentctx.err


def test_forget_rewrites_the_files_and_names_remaining_copies(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = ForgetReply(id=ID, versions=1, backups=2, remains=["dumps made before", "unused space"])
    rewritten = RewriteReply(remains=["dumps made before"], backup="/b/1.db", backups_removed=["/b/0.db"])
    daemon.answer("DELETE", f"/v1/entries/{ID}", (200, reply))
    daemon.answer("POST", "/v1/rewrite", (200, rewritten))
    assert agentctx("forget", ID, "--rewrite", "--yes") == 0
    assert agentctx.out == f"forgotten  {ID}  versions 1\n"
    assert "dumps made before" in agentctx.err
    assert "unused space" not in agentctx.err
    assert "automatic backups" not in agentctx.err
    assert agentctx("forget", "--rewrite", "--json") == 0
    assert agentctx.json == asdict(rewritten)
    assert agentctx("forget", "--rewrite") == 0
    assert agentctx.out.endswith("\nbacked up  /b/1.db  removed 1 older\n")
    assert [seen.method for seen in daemon.seen] == ["DELETE", "POST", "POST", "POST"]


def test_forget_all_counts_asks_and_names_the_namespace(agentctx: Agentctx, daemon: StubDaemon) -> None:
    counted = ForgetAllReply(namespace="dir-x:/home/ann/my@20shop", entries=1_234, dry_run=True)
    gone = replace(counted, dry_run=False, backups=2)
    command = ("forget", "--all", "--namespace", "dir:/home/ann/my shop")
    daemon.answer("DELETE", "/v1/entries", (200, counted), (200, counted), (200, counted), (200, gone))

    assert agentctx(*command, "--dry-run") == 0
    assert agentctx.out == "would be forgotten  1,234 entries of dir:/home/ann/my shop\n"
    assert agentctx(*command) == 2
    assert "needs a confirmation" in agentctx.err
    assert [seen.query.get("dry_run") for seen in daemon.seen] == [["true"], ["true"]]

    assert agentctx(*command, "--yes") == 0
    assert agentctx.out == "forgotten  1,234 entries of dir:/home/ann/my shop\n"
    assert agentctx.err.startswith("note: 2 automatic backups may hold it until somebody removes them")
    assert daemon.seen[-1].query == {"namespace": ["dir-x:/home/ann/my@20shop"]}


def test_forget_all_takes_nothing_for_granted(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTX_NAMESPACE", "team")
    for args in (
        ("--all",),
        ("--all", "--namespace", ""),
        ("--all", "--namespace", "user-*"),
        ("--all", "--namespace", "team", ID),
        ("--all", "--namespace", "team", "--with-copies"),
    ):
        assert agentctx("forget", *args, "--yes") == 2, args
    assert not daemon.seen


def test_forget_all_asks_on_a_terminal(daemon: StubDaemon) -> None:
    counted = ForgetAllReply(namespace="team", entries=2, dry_run=True)
    daemon.answer("DELETE", "/v1/entries", (200, counted))
    args = ["--socket", str(daemon.socket), "forget", "--all", "--namespace", "team"]
    with PseudoTerminal(args) as terminal:
        terminal.read_until("Delete 2 entries of team permanently? This cannot be undone. [y/N]")
        terminal.press("n\n")
        assert terminal.finish()[0] == 1
    assert len(daemon.seen) == 1


def test_forget_requires_an_entry_or_rewrite(agentctx: Agentctx, daemon: StubDaemon) -> None:
    assert agentctx("forget", "--yes") == agentctx("forget", "--rewrite", "--dry-run") == 2
    assert "No entry is named" in agentctx.err
    assert not daemon.seen


@pytest.mark.parametrize(
    ("args", "typed", "code", "requests"), [((), "n\n", 1, 0), ((), "y\n", 0, 1), (("--yes",), "", 0, 1)]
)
def test_forget_on_a_terminal_asks_unless_yes_is_given(
    agentctx: Agentctx,
    with_entry_to_forget: StubDaemon,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    typed: str,
    code: int,
    requests: int,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("agentctx.cli.consent.can_prompt", lambda: True)

    assert agentctx("forget", ID, *args) == code
    assert len(with_entry_to_forget.seen) == requests


def test_ctrl_c_at_the_prompt_is_an_interrupt(with_entry_to_forget: StubDaemon) -> None:
    with PseudoTerminal(["--socket", str(with_entry_to_forget.socket), "forget", ID]) as terminal:
        terminal.read_until("permanently?")
        code, _ = terminal.interrupt()
    assert code == 130
    assert not with_entry_to_forget.seen


VERSIONS = [
    entry(version=12, content="Never on Friday.\nAsk first."),
    entry(
        version=11,
        live=False,
        content="Never on Friday.",
        attributes={"category": "rule", "tags": ["ops"]},
        updated="2026-11-20T10:00:00.000Z",
    ),
]


@pytest.fixture
def versions(daemon: StubDaemon) -> None:
    daemon.answer("GET", f"/v1/entries/{ID}/versions", (200, VersionPage(versions=VERSIONS, next=None)))


@pytest.mark.usefixtures("versions")
def test_versions_are_aligned_newest_first(agentctx: Agentctx) -> None:
    assert agentctx("history", ID) == 0
    assert agentctx.out.splitlines() == [
        "VERSION  UPDATED                   STATE  CONTENT",
        "     12  2026-11-21T10:00:00.000Z  live   Never on Friday. Ask first.",
        "     11  2026-11-20T10:00:00.000Z  old    Never on Friday.",
    ]
    assert "10 versions not kept" in agentctx.err
    assert agentctx("history", ID, "--json") == 0
    assert [each["version"] for each in agentctx.json["versions"]] == [12, 11]


@pytest.mark.usefixtures("versions")
def test_a_diff_shows_text_and_attributes(agentctx: Agentctx) -> None:
    assert agentctx("history", ID, "--diff") == 0
    assert agentctx.out.splitlines() == [
        "--- version 11",
        "+++ version 12",
        "@@ -1,4 +1,5 @@",
        " category: rule",
        "-tags: ops",
        "+tags: ops, release",
        " ",
        " Never on Friday.",
        "+Ask first.",
        "",
        "version 11  2026-11-20T10:00:00.000Z  the first one kept",
    ]


@pytest.mark.usefixtures("versions")
def test_a_diff_is_coloured_on_a_terminal_and_truncated(
    agentctx: Agentctx, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "46")
    assert agentctx("history", ID, "--diff") == 0
    assert "\x1b[31m-tags: ops\x1b[0m\n\x1b[32m+tags: ops, release\x1b[0m" in terminal.written()
    assert agentctx("history", ID) == 0
    assert terminal.written().splitlines()[-1].endswith("Nev…")


def test_control_sequences_are_shown_as_escapes() -> None:
    lines = diff_lines([entry(version=2, content="\x1b[2J"), entry(version=1, content="a")])
    assert "+\\x1b[2J" in lines


def test_one_version_has_no_diff() -> None:
    assert diff_lines([entry(version=1)]) == ["version 1  2026-11-21T10:00:00.000Z  the first one kept"]


def test_all_pages_are_shown(agentctx: Agentctx, daemon: StubDaemon) -> None:
    path = f"/v1/entries/{ID}/versions"
    first, second = ([each] for each in VERSIONS)
    pages = VersionPage(versions=first, next="12"), VersionPage(versions=second, next=None)
    daemon.answer("GET", path, *((200, page) for page in pages))
    assert agentctx("history", ID, "--json") == 0
    assert [each["version"] for each in agentctx.json["versions"]] == [12, 11]
    assert [seen.query for seen in daemon.seen] == [{}, {"cursor": ["12"]}]


def test_a_withdrawn_entry_is_listed_on_request_and_marked(agentctx: Agentctx, daemon: StubDaemon) -> None:
    state = FileState(state="withdrawn", reason="gone", since="2026-11-28", until="2026-12-28")
    withdrawn = replace(entry(), file_state=state)
    daemon.answer("GET", "/v1/entries", (200, EntryPage(entries=[withdrawn], next=None)))
    daemon.answer("GET", f"/v1/entries/{ID}", (200, withdrawn))
    assert agentctx("list", "--withdrawn") == 0
    assert "[withdrawn] " in agentctx.out
    assert daemon.seen[0].query["withdrawn"] == ["true"]
    assert agentctx("get", ID) == 0
    assert "withdrawn since 2026-11-28, until 2026-12-28: gone" in agentctx.out


def test_a_file_record_is_short_however_many_places_it_has() -> None:
    record = {
        "digest": "0123456789abcdef" * 4,
        "size": 12_345,
        "modified": 1,
        "part": 2,
        "parts": 3,
        "unit": "page",
        "places": [[offset, 1] for offset in range(10_000)],
    }
    assert file_record(record) == "part 2 of 3, 12.3 kB, sha256 0123456789ab"
    assert file_record({**record, "part": 1, "parts": 1}) == "12.3 kB, sha256 0123456789ab"
