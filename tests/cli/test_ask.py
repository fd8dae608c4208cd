from dataclasses import asdict

import pytest

from agentctx.cli.ask import location_text
from agentctx.wire import ContextReply, Location, SearchReply
from tests.cli.conftest import Agentctx
from tests.cli.terminal import Terminal
from tests.client.stub_daemon import ID, StubDaemon, passage

OPTIONS = [
    "-c",
    "knowledge",
    "--collection",
    "learning",
    "--session",
    "s",
    "--namespace",
    "team",
    "--namespace",
    "user:ann",
    "--agent",
    "planner",
    "--category",
    "rule",
    "--tag",
    "a",
    "--tag",
    "b",
    "--since",
    "7d",
    "--until",
    "1d",
    "--limit",
    "3",
    "--order",
    "distance",
    "--max-distance",
    "0.8",
]
FIELDS = {
    "query": "when?",
    "collections": ["knowledge", "learning"],
    "session": "s",
    "namespace": "default",
    "namespaces": ["team", "user:ann"],
    "agent": "planner",
    "category": "rule",
    "tags": ["a", "b"],
    "since": "7d",
    "until": "1d",
    "limit": 3,
    "order": "distance",
    "max_distance": 0.8,
}
BLOCK = "## Semantic Context (RAG)\n\nNothing goes to production on a Friday.\n"


def found(*passages: object, degraded: str | None = None) -> SearchReply:
    return SearchReply(results=list(passages), degraded=degraded)  # type: ignore[arg-type]  # passages of the stub


def test_every_search_option_is_sent(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/search", (200, found()))

    assert agentctx("search", "when?", *OPTIONS) == 0
    assert daemon.seen[0].body == FIELDS


def test_every_context_option_is_sent(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer(
        "POST", "/v1/context", (200, ContextReply(block=BLOCK, tokens=9, results=[], degraded=None))
    )

    assert agentctx("context", "when?", *OPTIONS, "--budget", "500", "--position", "tail", "--all") == 0
    assert daemon.seen[0].body == {**FIELDS, "budget_tokens": 500, "position": "tail", "all": True}


def test_a_plain_search_sends_only_the_defaults(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/search", (200, found()))

    agentctx("search", "when?")
    assert daemon.seen[0].body == {"query": "when?", "namespace": "default", "order": "relevance"}


@pytest.mark.parametrize(("relevance", "said"), [(0.06, True), (0.6, False)])
def test_low_figures_are_explained(
    agentctx: Agentctx, daemon: StubDaemon, relevance: float, said: bool
) -> None:
    daemon.answer("POST", "/v1/search", (200, found(passage(relevance=relevance), passage(relevance=0.0))))
    assert agentctx("search", "when?") == 0
    assert ("relevance is the chance that a passage does" in agentctx.err) == said


def test_passages_are_aligned_and_not_truncated_without_a_terminal(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    long = "word " * 60
    hits = found(
        passage(),
        passage(collection="observation", source_id=ID, distance=None, relevance=0.125, content=long),
    )
    daemon.answer("POST", "/v1/search", (200, hits))

    assert agentctx("search", "when?") == 0

    assert agentctx.out.splitlines() == [
        "RELEVANCE  COLLECTION   SOURCE",
        "     0.88  knowledge    deploy-window",
        "           Nothing goes to production on a Friday.",
        f"     0.12  observation  {ID}",
        " " * 11 + long.strip(),
    ]
    assert agentctx.err == ""


def test_distances_are_shown_if_they_define_the_order(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/search", (200, found(passage())))

    assert agentctx("search", "when?", "--order", "distance") == 0
    assert agentctx.out.splitlines()[:2] == [
        "DISTANCE  RELEVANCE  COLLECTION  SOURCE",
        "   0.312       0.88  knowledge   deploy-window",
    ]


def test_passages_can_be_shown_in_full(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/search", (200, found(passage(content="One line.\n\n  Another \x1b[2Jline."))))

    assert agentctx("search", "when?", "--full") == 0
    assert agentctx.out.splitlines()[2:] == [
        "           One line.",
        "",
        "             Another \\x1b[2Jline.",
        "",
    ]


@pytest.mark.parametrize("command", ["search", "context"])
def test_a_question_needs_no_quotes(agentctx: Agentctx, daemon: StubDaemon, command: str) -> None:
    daemon.answer("POST", "/v1/search", (200, found()))
    block = ContextReply(block=BLOCK, tokens=9, results=[], degraded=None)
    daemon.answer("POST", "/v1/context", (200, block))

    assert agentctx(command, "when", "do", "deploys", "--limit", "3", "happen?") == 0
    assert daemon.seen[0].body["query"] == "when do deploys happen?"


def test_search_json_is_the_reply(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/search", (200, found(passage(content="日本"), degraded="no model")))

    assert agentctx("search", "when?", "--json") == 0

    assert agentctx.json == {
        "results": [asdict(passage(content="日本"))],
        "degraded": "no model",
        "rerank": None,
    }
    assert "日本" in agentctx.out
    assert agentctx.err == ""


def test_a_keyword_only_answer_says_why(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/search", (200, found(degraded="the provider is down")))

    assert agentctx("search", "when?") == 0
    assert (agentctx.out, agentctx.err) == (
        "",
        (
            "note: nothing was found; `agentctx list` shows what is saved\n"
            "note: keyword search only: the provider is down\n"
        ),
    )


def test_an_answer_without_reranking_says_why(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = SearchReply(results=[passage()], degraded=None, rerank="deadline: it took longer than 1 s")
    daemon.answer("POST", "/v1/search", (200, reply))

    assert agentctx("search", "when?") == 0
    assert agentctx.err == "note: not reranked: deadline: it took longer than 1 s\n"


def test_a_terminal_gets_colour_and_its_width(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answer("POST", "/v1/search", (200, found(passage(content="word " * 60))))
    monkeypatch.setenv("COLUMNS", "60")
    coloured, plain = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", coloured)
    agentctx("search", "when?")
    monkeypatch.setattr("sys.stdout", plain)
    monkeypatch.setenv("NO_COLOR", "1")
    agentctx("search", "when?")

    assert coloured.written().startswith("\x1b[2mRELEVANCE")
    assert "\x1b" not in plain.written()
    assert max(map(len, plain.written().splitlines())) <= 60
    assert plain.written().endswith("…\n")


def test_text_from_a_file_is_shown_with_its_location(agentctx: Agentctx, daemon: StubDaemon) -> None:
    hits = found(
        passage(location=Location(path="docs/notes.md", unit="line", first=12, last=20)),
        passage(location=Location(path="report.pdf", unit="page", first=3, last=3)),
    )
    daemon.answer("POST", "/v1/search", (200, hits))

    assert agentctx("search", "when?") == 0
    lines = agentctx.out.splitlines()
    assert lines[1].endswith("knowledge   docs/notes.md:12-20")
    assert lines[3].endswith("knowledge   report.pdf page 3")


def test_the_headings_of_a_hit_precede_its_text(agentctx: Agentctx, daemon: StubDaemon) -> None:
    location = Location(path="docs/notes.md", unit="line", first=12, last=20)
    hit = passage(location=location, headings=["Guide", "Install"])
    daemon.answer("POST", "/v1/search", (200, found(hit)))

    assert agentctx("search", "when?") == 0
    shown = [line.strip() for line in agentctx.out.splitlines()]
    assert shown[2:] == ["Guide, Install", hit.content]


def test_a_narrow_terminal_shows_the_end_of_a_long_path(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location(path="very/" * 30 + "notes.md", unit="line", first=1, last=2)
    daemon.answer("POST", "/v1/search", (200, found(passage(location=location))))
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    assert agentctx("search", "when?") == 0
    lines = terminal.written().splitlines()
    assert len(lines[1]) == 60
    assert lines[1].endswith("/notes.md:1-2")
    assert "…" in lines[1]


def test_a_narrow_terminal_shows_a_key_whole(
    agentctx: Agentctx, daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "team/" * 12 + "deploy-window"
    daemon.answer("POST", "/v1/search", (200, found(passage(source_id=key))))
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    assert agentctx("search", "when?") == 0
    assert terminal.written().splitlines()[1].endswith(key)


def test_the_block_is_printed_unchanged(agentctx: Agentctx, daemon: StubDaemon) -> None:
    reply = ContextReply(block=BLOCK, tokens=9, results=[passage()], degraded=None)
    daemon.answer("POST", "/v1/context", (200, reply))

    assert agentctx("context", "when?") == 0
    assert (agentctx.out, agentctx.err) == (BLOCK, "")
    assert agentctx("context", "when?", "--json") == 0
    assert agentctx.json == asdict(reply)


def test_an_empty_block_prints_nothing(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/context", (200, ContextReply(block="", tokens=0, results=[], degraded=None)))

    assert agentctx("context", "when?") == 0
    out, err = agentctx.out, agentctx.err
    assert out == ""
    assert err == "note: nothing is relevant enough for an LLM call; --all shows what was found\n"


def test_passages_from_several_namespaces_show_them(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer(
        "POST", "/v1/search", (200, found(passage(namespace="team"), passage(namespace="user:ann")))
    )
    agentctx("search", "when?", "--namespace", "team", "--namespace", "user:ann")
    _, _, first, _, second = agentctx.out.splitlines()
    assert (first.split()[0], second.split()[:2]) == ("Nothing", ["[in", "user:ann]"])


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(path="a/notes.md", unit="line", first=12, last=20), "a/notes.md:12-20"),
        (Location(path="a/notes.md", unit="line", first=7, last=7), "a/notes.md:7"),
        (Location(path="report.pdf", unit="page", first=3, last=3), "report.pdf page 3"),
        (Location(path="talk.pptx", unit="slide", first=1, last=2), "talk.pptx slides 1-2"),
    ],
)
def test_a_place_is_human_readable(location: Location, text: str) -> None:
    assert location_text(location) == text
