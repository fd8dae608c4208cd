"""SQL, query syntax and wildcards in every field that reaches the database are text and widen no scope.

`AGENTCTX_FUZZ_EXAMPLES=10000` tries more than the default of a few hundred.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.end_to_end.daemon_process import DaemonProcess

EXAMPLES = int(os.environ.get("AGENTCTX_FUZZ_EXAMPLES", "100"))
CANARY = "zanzibar-canary"
OTHER = "another-namespace"

FRAGMENTS = [
    "'",
    '"',
    "`",
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "%",
    "_",
    "*",
    "?",
    ":a",
    "@a",
    "$a",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "' OR '1'='1",
    "' OR 1=1 --",
    '" OR ""="',
    "1; DROP TABLE entries; --",
    "') UNION SELECT content FROM entries --",
    "' UNION SELECT name, sql FROM sqlite_schema --",
    "' AND (SELECT load_extension('x')) --",
    "'||(SELECT group_concat(content) FROM entries)||'",
    "1 OR namespace = 'another-namespace'",
    "x' ESCAPE '",
    "ATTACH DATABASE 'x' AS y",
    "PRAGMA writable_schema = 1",
    "randomblob(1000000000)",
    "char(0)",
    "NULL",
    "true",
    "AND",
    "OR",
    "NOT",
    "NEAR(a b, 2)",
    "NEAR(",
    "a AND",
    "^a",
    "a*",
    "-a",
    "+a",
    "scope:a",
    "text : a",
    "{text scope}: a",
    "- scope : a",
    "rank MATCH 'bm25(1)'",
    "rowid",
    "zanzibar*",
    "za*",
    CANARY,
    f'scope:"{OTHER}"',
    f'"{OTHER}" {CANARY}',
    "\u2028",
    "\ufeff",
    "\u202e",
    "ﬀ",
    "İ",
    "😀",
    "\x7f",
    "{}",
    "[]",
    "$[0]",
    "$.a",
    "../",
    "%00",
    "%27",
    "\r\n",
    "\t",
]
TEXT = (
    st.lists(
        st.sampled_from(FRAGMENTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=6
    )
    .map(" ".join)
    .filter(lambda text: "\0" not in text)
)
NAMED = TEXT.filter(bool)
SEARCH = st.fixed_dictionaries(
    {"query": NAMED},
    optional={
        "collections": st.lists(NAMED | st.just("knowledge"), min_size=1, max_size=3),
        "session": TEXT,
        "agent": TEXT,
        "category": TEXT,
        "tags": st.lists(TEXT, max_size=3),
        "since": TEXT,
        "until": TEXT,
        "order": TEXT,
        "limit": st.integers(-5, 200),
    },
)
SAVE = st.fixed_dictionaries(
    {"collection": st.sampled_from(["knowledge", "observation"]) | NAMED, "content": NAMED},
    optional={
        "key": TEXT,
        "session": TEXT,
        "agent": TEXT,
        "tags": st.lists(TEXT, max_size=3),
        "category": TEXT,
        "source": TEXT,
        "namespace": TEXT,
        "ttl": TEXT,
    },
)
PARAMETERS = ("collection", "session", "key_prefix", "cursor", "limit", "with_content", "trust")
LISTING = st.fixed_dictionaries({}, optional=dict.fromkeys(PARAMETERS, TEXT))
SQL_OF_OURS = re.compile(
    r"sqlite|syntax error|no such (table|column)|fts5|vec0|near \"|unrecognized token|SELECT [^`]+ FROM",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("sql"), config='[embedding]\nprovider = "fake"\n').start()
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(transport=transport, base_url="http://agentctx", trust_env=False) as http:
        for namespace, content in ((OTHER, f"the {CANARY} is elsewhere"), ("default", "nothing to see here")):
            entry = {"collection": "knowledge", "key": "k", "content": content, "namespace": namespace}
            assert http.post("/v1/entries", json=entry).status_code == 201
        yield http
        assert http.get("/readyz").status_code == 200
    assert daemon.stop() == 0
    assert not [line for line in daemon.log if line.get("level") in ("error", "critical")], daemon.log


def texts_in(value: Any) -> Iterator[str]:
    """Return every text in a body or in parameters."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def check(response: httpx.Response, sent: Any) -> None:
    """Require a reply or an error in our own words, without anything from the other namespace.

    An error may quote a text of the request, with escapes for unprintable characters.
    """
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        error = response.json()["error"]
        said = f"{error['message']} {error['hint']}"
        quotable = [form for text in texts_in(sent) for form in (text, repr(text), ascii(text))]
        suspicious = [match[0] for match in SQL_OF_OURS.finditer(said)]
        assert not [words for words in suspicious if not any(words in text for text in quotable)], said
    # No reply quotes the question, so a question with the canary does not return it.
    assert f"the {CANARY} is" not in response.text


fuzzed = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@fuzzed
@given(body=SEARCH, path=st.sampled_from(["/v1/search", "/v1/context"]))
def test_a_question_stays_in_its_namespace(body: dict[str, Any], path: str, http: httpx.Client) -> None:
    check(http.post(path, content=json.dumps(body, ensure_ascii=False).encode()), body)


@fuzzed
@given(parameters=LISTING, path=st.sampled_from(["/v1/entries", "/v1/export", "/v1/injections"]))
def test_a_list_stays_in_its_namespace(parameters: dict[str, str], path: str, http: httpx.Client) -> None:
    given_ = parameters if path == "/v1/injections" else {**parameters, "namespace": "default"}
    check(http.get(path, params=given_), parameters)


@fuzzed
@given(entry_id=NAMED, method=st.sampled_from(["GET", "PATCH", "DELETE"]), version=st.none() | TEXT)
def test_an_id_matches_at_most_one_entry(
    entry_id: str, method: str, version: str | None, http: httpx.Client
) -> None:
    content = b'{"content": "changed"}' if method == "PATCH" else None
    parameters = {} if version is None else {"version" if method == "GET" else "if_version": version}
    path = f"/v1/entries/{quote(entry_id, safe='')}"
    response = http.request(method, path, params=parameters, content=content)
    assert response.status_code in {307, 400, 404, 405}
    if response.status_code != 307:
        check(response, [entry_id, version])


@fuzzed
@given(body=SAVE)
def test_saved_text_is_read_back_unchanged(body: dict[str, Any], http: httpx.Client) -> None:
    response = http.post("/v1/entries", content=json.dumps(body).encode())
    check(response, body)
    if response.status_code == 201:
        entry = http.get(f"/v1/entries/{response.json()['id']}").json()
        assert entry["content"] == body["content"]
        assert entry["namespace"] == body.get("namespace", "default")


def test_the_canary_is_found_in_its_namespace(http: httpx.Client) -> None:
    found = http.post("/v1/search", json={"query": CANARY, "namespace": OTHER})
    assert f"the {CANARY} is" in found.text


def test_all_entries_survive(http: httpx.Client) -> None:
    listed = http.get("/v1/entries", params={"namespace": OTHER}).json()
    assert [entry["content"] for entry in listed["entries"]] == [f"the {CANARY} is elsewhere"]
    assert http.get("/v1/doctor", params={"only": "database"}).status_code == 200
