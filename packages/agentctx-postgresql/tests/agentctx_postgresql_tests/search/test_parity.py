"""Both engines find the same entries."""

from __future__ import annotations

from pathlib import Path

from agentctx.storage.sqlite.engine import SqliteStorage
from agentctx_postgresql.engine import PostgresqlStorage
from agentctx_testing.drafts import ALL, ManualClock, keyless, save

TEXTS = (
    "getUserName reads config.yaml",
    "the sha256 of snake_case_name",
    "部署窗口是星期二",
    "東京タワーへ行く",
    "well-known C++ and foo::bar",
    "Straße naïve café",
    "HTTPServer at 10.0.0.1:8080",
    "e-mail to a.b@example.org",
    "한국어 문서",
    "URLs of v2.10.3",
    "config for yaml, apart: config … yaml",
    "The database is backed up nightly; backups of databases are kept.",
    "it's the user's name, O'Brien's",
    "ABCdefGHI and sha256sum of iPhone15Pro",
    "Привет мир и ещё слова",
    "x" * 700,
)
QUESTIONS = (
    "user name", "config yaml", "config.yaml", "yaml", "sha256", "snake", "snake_case_name", "部署", "窗口",
    "星期二", "窗", "東京", "タワー", "well known", "well-known", "foo bar", "foo::bar", "naive", "cafe",
    "strasse", "straße", "http server", "HTTPServer", "10.0.0.1", "0.0", "example", "a.b@example.org", "문서",
    "문", "URL", "v2.10.3", "2.10", "backups of databases", "O'Brien", "users", "sha256sum", "iphone",
    "привет", "еще", "ещё", "x" * 700, "the", "is it?", "", "…",
)  # fmt: skip


async def test_both_engines_find_the_same_entries(storage: PostgresqlStorage, tmp_path: Path) -> None:
    sqlite = await SqliteStorage.open(tmp_path / "agentctx.db", clock=ManualClock())
    try:
        texts: dict[str, str] = {}
        for text in TEXTS:
            for engine in (storage, sqlite):
                texts[(await save(engine, keyless(text, labels="shared label"))).id] = text
        for question in (*QUESTIONS, "shared-label"):
            both = [await engine.search.by_words(question, ALL, 50) for engine in (sqlite, storage)]
            expected, found = ({texts[hit.entry] for hit in each.hits} for each in both)
            assert found == expected, question
            assert both[0].counts == both[1].counts, question
    finally:
        await sqlite.close()
