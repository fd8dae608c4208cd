from dataclasses import asdict, fields
from typing import Any

from agentctx.wire import ExplainReply, InjectionCandidate, InjectionList, InjectionSummary, InjectionView
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import ID, StubDaemon

CANDIDATES = [
    InjectionCandidate(
        entry=ID,
        chunk=7,
        word_score=1.5,
        distance=0.312,
        relevance=0.875,
        fate="injected",
        collection="knowledge",
        source_id="deploy-window",
    ),
    InjectionCandidate(
        entry=ID,
        chunk=9,
        word_score=None,
        distance=None,
        relevance=0.1,
        fate="duplicate",
        duplicate_of="e1",
    ),
]


def view(**changes: Any) -> InjectionView:
    values: dict[str, Any] = {
        "id": "01k5v8m2qabc",
        "created": "2026-11-22T05:00:00.000Z",
        "namespaces": ["team"],
        "session": "s1",
        "conversation": None,
        "agent": None,
        "principal": 1000,
        "position": "tail",
        "question_hash": "ab12",
        "question": None,
        "injected": 1,
        "fates": {"injected": 1, "duplicate": 1, "relevance": 12},
        "gate": 0.25,
        "budget_tokens": 1500,
        "tokens": 87,
        "milliseconds": 6.25,
        "block_hash": "cd34",
        "degraded": None,
        "rerank": None,
        "candidates": CANDIDATES,
    }
    return InjectionView(**{**values, **changes})


def listed(*views: InjectionView) -> InjectionList:
    names = [field.name for field in fields(InjectionSummary)]
    return InjectionList(
        injections=[InjectionSummary(**{name: getattr(each, name) for name in names}) for each in views]
    )


def test_a_receipt_is_shown_readably(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/injections/01k5v8m2qabc", (200, view()))
    assert agentctx("why", "01k5v8m2qabc") == 0
    assert agentctx.out.splitlines() == [
        "injection  01k5v8m2qabc",
        "created    2026-11-22T05:00:00.000Z",
        "position   tail",
        "asked by   team, session s1, uid 1000",
        "question   ab12 (fingerprint)",
        "found      14 passages: 1 injected, 1 duplicate, 12 relevance",
        "gate       relevance 0.25 for the best passage",
        "tokens     87 of 1500",
        "took       6.2 ms",
        "block      cd34",
        "",
        "FATE       WORDS  DISTANCE  RELEVANCE  COLLECTION  SOURCE",
        "injected    1.00     0.312       0.88  knowledge   deploy-window",
        f"duplicate      -         -       0.10  gone        {ID} of e1",
    ]


def test_an_empty_injection_says_why(agentctx: Agentctx, daemon: StubDaemon) -> None:
    nothing = view(injected=0, tokens=0, block_hash=None, candidates=[], fates={}, gate=None, degraded="down")
    daemon.answer("GET", "/v1/injections", (200, listed(nothing)))
    daemon.answer("GET", "/v1/injections/01k5v8m2qabc", (200, nothing))
    assert agentctx("why", "--last") == 0
    lines = agentctx.out.splitlines()
    assert "found      no passages" in lines
    assert "gate       none" in lines
    assert "block      empty: nothing was injected" in lines
    assert "degraded   down" in lines
    assert daemon.seen[0].query == {"limit": ["1"]}


def test_without_an_id_recent_receipts_are_listed(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/injections", (200, listed(view(), view(session=None))))
    assert agentctx("why", "--limit", "2") == 0
    assert daemon.seen[0].query == {"limit": ["2"]}
    assert agentctx.out.splitlines() == [
        f"{'ID':<14}{'CREATED':<26}POSITION  INJECTED  FOUND  TOKENS   MS  SESSION  CONVERSATION",
        "01k5v8m2qabc  2026-11-22T05:00:00.000Z  tail             1     14      87  6.2  s1       -",
        "01k5v8m2qabc  2026-11-22T05:00:00.000Z  tail             1     14      87  6.2  -        -",
    ]


def test_why_before_the_first_injection_prints_a_note(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/injections", (200, listed()), (200, listed()))
    for options, code in (([], 0), (["--last"], 1)):
        assert agentctx("why", *options) == code
        assert (agentctx.out, agentctx.err.count("no LLM call has asked")) == ("", 1)


def test_json_is_the_reply(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/injections/01k5v8m2qabc", (200, view()))
    daemon.answer("GET", "/v1/injections", (200, listed(view())))
    assert agentctx("why", "01k5v8m2qabc", "--json") == 0
    assert agentctx.json == asdict(view())
    assert agentctx("why", "--json") == 0
    assert agentctx.json == asdict(listed(view()))


def test_an_id_and_last_exclude_each_other(agentctx: Agentctx) -> None:
    assert agentctx("why", "01k5v8m2qabc", "--last") == 2


REPLY = ExplainReply(
    entry=ID,
    verdict="relevance",
    message="its relevance is 0.10",
    word_rank=3,
    distance_rank=None,
    fused_rank=4,
    words_matched=1,
    words_wanted=5,
    gate=0.5,
    candidates=[
        InjectionCandidate(entry=ID, chunk=7, word_score=1.5, distance=0.912, relevance=0.1, fate="relevance")
    ],
)


def test_why_not_names_the_deciding_step(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("POST", "/v1/injections/explain", (200, REPLY))
    options = ["--position", "system", "--tag", "a", "--limit", "3", "--budget", "90"]
    assert agentctx("why-not", ID, "--query", "when?", *options) == 0
    assert daemon.seen[0].body == {
        "entry": ID,
        "query": "when?",
        "namespace": "default",
        "tags": ["a"],
        "limit": 3,
        "order": "relevance",
        "budget_tokens": 90,
        "position": "system",
    }
    assert agentctx.out.splitlines() == [
        "relevance   its relevance is 0.10",
        "by keyword  #3",
        "together    #4",
        "words       1 of 5",
        "distance    0.912",
        "relevance   0.100",
        "gate        0.500",
    ]


def test_why_not_as_json_and_degraded(agentctx: Agentctx, daemon: StubDaemon) -> None:
    bare = ExplainReply(entry=ID, verdict="no_match", message="none", degraded="down", candidates=[])
    daemon.answer("POST", "/v1/injections/explain", (200, REPLY), (200, bare))
    assert agentctx("why-not", ID, "--query", "when?", "--json") == 0
    assert agentctx.json == asdict(REPLY)
    assert agentctx("why-not", ID, "--query", "when?") == 0
    assert agentctx.out == "no_match  none\n"
    assert agentctx.err == "note: keyword search only: down\n"


def test_why_not_says_what_the_hooks_of_agents_ask_nothing_for(
    agentctx: Agentctx, daemon: StubDaemon
) -> None:
    daemon.answer("POST", "/v1/injections/explain", (200, REPLY))
    assert agentctx("why-not", ID, "--query", "/compact now") == 0
    assert agentctx.err == (
        "note: the hooks of agents ask nothing here: a text that begins with / is a command of the agent\n"
    )


def test_a_question_is_needed(agentctx: Agentctx) -> None:
    assert agentctx("why-not", ID) == 2
