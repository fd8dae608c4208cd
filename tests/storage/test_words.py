from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import pysqlite3
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentctx.storage.words import (
    _MIXED,
    MAX_TERMS,
    Term,
    index_terms,
    match_expression,
    question_terms,
    scope_token,
)
from tests.amount import examples

HERE = scope_token("n", "here")
THERE = scope_token("n", "there")


class Corpus:
    """A full-text table like the storage's."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        connection.execute(
            "CREATE VIRTUAL TABLE fts USING fts5(text, labels, terms, scope, tokenize = 'porter unicode61')"
        )

    def add(self, text: str, *scope: str, labels: str = "") -> int:
        row = (text, labels, index_terms(f"{text}\n{labels}"), " ".join(scope or (HERE,)))
        return int(self._connection.execute("INSERT INTO fts VALUES (?, ?, ?, ?)", row).lastrowid)

    def find(self, question: str, *scope: tuple[str, ...]) -> list[int]:
        """Return row ids, best first."""
        return self.match(match_expression(question_terms(question), scope or ((HERE,),)))

    def match(self, expression: str) -> list[int]:
        if not expression:
            return []
        sql = "SELECT rowid FROM fts WHERE fts MATCH ? ORDER BY rank, rowid"
        return [row[0] for row in self._connection.execute(sql, (expression,))]

    def has(self, question: str) -> bool:
        return bool(self.find(question))


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with closing(pysqlite3.connect(":memory:")) as connection:
        yield connection


@pytest.fixture
def corpus(connection: Any) -> Corpus:
    connection.execute("DROP TABLE IF EXISTS fts")
    return Corpus(connection)


class TestChineseJapaneseKorean:
    @pytest.mark.parametrize("word", ["数据", "数据库", "连接", "连接池", "库", "池", "我", "满了", "了"])
    def test_finds_words_and_characters_in_a_chinese_sentence(self, corpus: Corpus, word: str) -> None:
        corpus.add("我们的数据库连接池满了。")
        assert corpus.has(word)
        assert not corpus.has("磁盘")

    @pytest.mark.parametrize("word", ["データ", "データベース", "接続", "の", "ベ"])
    def test_finds_words_in_a_japanese_sentence(self, corpus: Corpus, word: str) -> None:
        corpus.add("データベースの接続が切れた")
        assert corpus.has(word)

    @pytest.mark.parametrize("word", ["시스템", "시스템을", "재시작"])
    def test_finds_korean_words_with_their_particles(self, corpus: Corpus, word: str) -> None:
        corpus.add("시스템을 재시작하세요")
        assert corpus.has(word)
        assert not corpus.has("데이터")

    @pytest.mark.parametrize("word", ["SQLite", "sqlite", "getUserName", "user", "3", "数据"])
    def test_finds_latin_words_adjacent_to_chinese(self, corpus: Corpus, word: str) -> None:
        corpus.add("使用SQLite数据库的getUserName函数。第3章")
        assert corpus.has(word)

    def test_a_question_may_mix_scripts_without_spaces(self, corpus: Corpus) -> None:
        row = corpus.add("SQLite is a database")
        assert corpus.find("什么是SQLite数据库") == [row]

    def test_longer_matches_rank_higher(self, corpus: Corpus) -> None:
        less = corpus.add("数据在这里")
        more = corpus.add("数据库在这里")
        assert corpus.find("数据库") == [more, less]

    @pytest.mark.parametrize(
        ("text", "question"),
        [
            ("ﾃﾞｰﾀを保存", "データ"),
            ("データを保存", "ﾃﾞｰﾀ"),
            ("テ\u3099ータを保存", "データ"),
            ("\u1109\u1175\u1109\u1173\u1110\u1166\u11b7", "시스템"),
        ],
    )
    def test_normalises_variants_of_the_same_characters(
        self, corpus: Corpus, text: str, question: str
    ) -> None:
        corpus.add(text)
        assert corpus.has(question)

    def test_finds_han_beyond_the_basic_plane(self, corpus: Corpus) -> None:
        corpus.add("大𠮷野家で")
        assert corpus.has("𠮷野")


class TestIdentifiers:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("call getUserName first", ["getUserName", "getusername", "user", "name"]),
            ("class HTTPServer2 listens", ["HTTPServer2", "http", "server", "server 2"]),
            ("set max_results high", ["max_results", "max", "results"]),
            ("read config.yaml now", ["config.yaml", "config", "yaml", "config yaml"]),
            ("a well-known fact", ["well-known", "known"]),
            ("use foo::bar here", ["foo::bar", "bar"]),
            ("see src/app/main.py twice", ["src/app/main.py", "main.py", "app"]),
            ("the sha256 sum", ["sha256", "sha"]),
            ("list all URLs", ["URL", "urls"]),
        ],
    )
    def test_are_found_whole_and_in_parts(self, corpus: Corpus, text: str, words: list[str]) -> None:
        corpus.add(text)
        assert [word for word in words if not corpus.has(word)] == []

    @pytest.mark.parametrize(
        ("question", "others"),
        [("config.yaml", ["the yaml config", "config.toml"]), ("well-known", ["known very well"])],
    )
    def test_a_compound_matches_only_as_a_phrase(
        self, corpus: Corpus, question: str, others: list[str]
    ) -> None:
        for text in others:
            corpus.add(text)
        assert not corpus.has(question)

    def test_camel_case_in_a_question_finds_the_plain_words(self, corpus: Corpus) -> None:
        row = corpus.add("the user has a name")
        assert corpus.find("getUserName") == [row]

    def test_labels_are_searched(self, corpus: Corpus) -> None:
        row = corpus.add("restart it", labels="OutOfMemoryError")
        assert corpus.find("memory") == corpus.find("outofmemoryerror") == [row]

    @pytest.mark.parametrize("text", ["🦀crab", "crab🦀", "₿5 and 🤖crab🤖", "“crab”—"])
    def test_finds_words_adjacent_to_a_symbol(self, corpus: Corpus, text: str) -> None:
        corpus.add(text)
        assert corpus.has("crab")


class TestIndexTerms:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "Plain English prose, with Names and ACRONYMS.",
            "snake_case kebab-case dot.ted",
            "naïve café",
            "42",
        ],
    )
    def test_adds_nothing_where_unicode61_suffices(self, text: str) -> None:
        assert index_terms(text) == ""

    @pytest.mark.parametrize(
        ("text", "terms"),
        [
            ("数据库", "数据 据库 库"),
            ("库", "库"),
            ("getUserName", "get user name"),
            ("HTTPServer2", "http server 2"),
            ("getURLs", "get urls"),
            ("utf8 utf8 UTF8", "utf 8"),
            ("用SQLite吧", "用 吧 sqlite sq lite"),
        ],
    )
    def test_adds_each_term_once(self, text: str, terms: str) -> None:
        assert index_terms(text) == terms

    def test_leaves_hashes_alone(self) -> None:
        assert index_terms("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08") == ""


class TestQuestionTerms:
    @pytest.mark.parametrize(
        ("question", "terms"),
        [
            ("What is the deadline of the project?", ["deadline", "project"]),
            ("Where did Melanie's sister go in May?", ["melanie", "sister", "go", "may"]),
            ("I can't say what's wrong, don't you'll see", ["say", "wrong", "see"]),
            ("who are you", ["who", "are", "you"]),
            (
                "read /etc/app/config.yaml, the well-known __init__",
                ["read", "etc/app/config.yaml", "well-known", "init"],
            ),
            ("std::vector std::vector VECTOR", ["std::vector", "vector"]),
            ("parseHTML5 isOpen", ["parsehtml5", "parse", "html", "5", "isopen", "open"]),
            ("O\u2019Brien O'Neill it\u2019s", ["o\u2019brien", "o'neill"]),
            ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ],
    )
    def test_extracts_search_terms(self, question: str, terms: list[str]) -> None:
        assert question_terms(question) == [Term(term) for term in terms]

    def test_the_terms_of_a_long_question_are_bounded(self) -> None:
        assert len(question_terms(" ".join(f"w{number}" for number in range(5_000)))) <= MAX_TERMS

    def test_emoji_are_terms_if_there_is_nothing_else(self) -> None:
        assert question_terms("\u2603 \U0001f600") == [Term("u2603"), Term("u1f600")]
        assert question_terms("\U0001f44d\U0001f3fd") == [Term("u1f44d")]
        assert question_terms("deploy \U0001f600") == [Term("deploy")]

    def test_ligatures_and_wide_letters_are_plain_ones_too(self) -> None:
        assert question_terms("\ufb01nance") == [Term("finance"), Term("\ufb01nance")]
        assert index_terms("\ufb01nance \uff21\uff30\uff29 \U0001f680") == "finance api u1f680"

    def test_a_lone_character_matches_as_a_prefix(self) -> None:
        assert question_terms("库 数据") == [Term("库", prefix=True), Term("数据")]

    @pytest.mark.parametrize("question", ["", "   ", "?!", '-- ** ""', "___", "\u0301", "\x00\ud800"])
    def test_a_question_without_words_has_no_terms(self, question: str) -> None:
        assert question_terms(question) == []


SYNTAX = (
    *('"', "'", "*", "^", "+", "-", ":", "(", ")", "{", "}", ",", ".", "\\", ";", "--", "\x00", "\ud800"),
    *(
        " AND ",
        " OR ",
        " NOT ",
        "NEAR(",
        "text:",
        "scope : ",
        "rowid",
        "库",
        "é",
        "e\u0301",
        "getName",
        "a_b",
    ),
    *(HERE, THERE),
)
any_question = st.lists(st.sampled_from(SYNTAX) | st.text(st.characters(), max_size=6), max_size=8).map(
    "".join
)
# Symbols older and newer than unicode61's tables, next to letters, digits and punctuation.
written_text = st.text(
    st.characters(max_codepoint=0x17F, exclude_categories=["Cc"]) | st.sampled_from("🚀🦀₿—“の库한")
)


class TestMatchExpression:
    def test_matches_any_term_in_every_scope(self) -> None:
        assert match_expression([Term("a b"), Term("库", prefix=True)], [["n1"], ["c1", "c2"]]) == (
            '{text labels terms} : ("a b" OR "库"*) AND scope : ("n1") AND scope : ("c1" OR "c2")'
        )

    def test_is_empty_without_terms_or_scopes(self) -> None:
        assert match_expression([], [["n1"]]) == ""
        assert match_expression([Term("a")], [["n1"], []]) == ""

    def test_quotes_are_doubled(self) -> None:
        assert match_expression([Term('a"b')], []) == '{text labels terms} : ("a""b")'

    @pytest.mark.parametrize(
        "question",
        [
            "alpha AND missing",
            "alpha NOT beta",
            "NOT alpha",
            "NEAR(alpha missing)",
            'alpha"',
            "alpha*",
            "-alpha",
            "^alpha",
            "scope:alpha",
            "(alpha",
            "{text}: alpha",
            "alpha + missing",
        ],
    )
    def test_syntax_is_treated_as_text(self, corpus: Corpus, question: str) -> None:
        row = corpus.add("beta alpha")
        assert corpus.find(question) == [row]

    @settings(max_examples=examples(300))
    @example("NEAR(a b, 3)")
    @given(any_question)
    def test_no_question_raises_or_leaves_its_scope(self, connection: Any, question: str) -> None:
        connection.execute("DROP TABLE IF EXISTS fts")
        corpus = Corpus(connection)
        text = question.encode("utf-8", "ignore").decode().replace("\x00", " ")
        corpus.add(text, THERE)
        inside = corpus.add(text, HERE)
        assert corpus.find(question) in ([inside], [])

    @settings(max_examples=examples(200))
    @given(written_text)
    def test_a_text_finds_itself(self, connection: Any, text: str) -> None:
        connection.execute("DROP TABLE IF EXISTS fts")
        corpus = Corpus(connection)
        row = corpus.add(text)
        assert corpus.find(text) == ([row] if question_terms(text) else [])

    def test_handles_thousands_of_terms(self, corpus: Corpus) -> None:
        row = corpus.add("word77")
        assert corpus.find(" ".join(f"word{n}" for n in range(4_000))) == [row]


class TestScope:
    def test_every_scope_group_must_match(self, corpus: Corpus) -> None:
        knowledge, learning = scope_token("c", "knowledge"), scope_token("c", "learning")
        row = corpus.add("alpha", HERE, knowledge)
        corpus.add("alpha", HERE, learning)
        corpus.add("alpha", THERE, knowledge)
        assert corpus.find("alpha", (HERE,), (knowledge,)) == [row]
        assert set(corpus.find("alpha", (HERE,), (knowledge, learning))) == {row, row + 1}

    def test_scope_tokens_do_not_match_text(self, corpus: Corpus) -> None:
        corpus.add("alpha", HERE)
        corpus.add(f"alpha {HERE} {THERE}", THERE)
        assert corpus.find(HERE) == []
        assert corpus.find("alpha", (scope_token("n", "elsewhere"),)) == []

    @given(st.sampled_from("ncs"), st.text(st.characters()))
    def test_a_token_is_one_plain_word_unchanged_by_stemming(self, kind: Any, value: str) -> None:
        token = scope_token(kind, value)
        assert token.isascii()
        assert token.isalnum()
        assert token == token.lower()
        assert token[0] == kind
        assert token[-1].isdigit()
        assert len(token) <= 21

    def test_tokens_are_stable_and_distinct(self) -> None:
        assert scope_token("n", "default") == "n4010717984327297149"
        made = {scope_token(kind, f"value {n}") for kind in ("n", "c", "s") for n in range(1_000)}
        assert len(made) == 3_000


@given(st.text(alphabet="aAbB1_ .-", max_size=12))
def test_words_with_parts_are_detected_in_any_text(text: str) -> None:
    words = re.findall("[A-Za-z0-9]+", text)
    has_parts = any(
        (a.islower() and b.isupper()) or a.isdigit() != b.isdigit()
        for word in words
        for a, b in pairwise(word)
    ) or any(re.search("[A-Z]{2}[a-z]", word) for word in words)
    assert (_MIXED.search(text) is not None) == has_parts
