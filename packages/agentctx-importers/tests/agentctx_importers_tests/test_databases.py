"""The sources that are a database of SQLite, made by the real programs or with their tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctx_importers import chroma_store, claude_mem, langgraph, mcp_memory_service, mempalace
from agentctx_importers.json_values import time_ms
from agentctx_importers.records import MemorySource, Record, RefusedItem, Unreadable
from agentctx_importers_tests.reading import records_of, sample_records
from agentctx_importers_tests.samples import MEMPALACE, write_database


def test_the_real_mcp_memory_service_without_what_was_deleted(tmp_path: Path) -> None:
    key, port = sample_records("mcp-memory-service", mcp_memory_service.SOURCE, tmp_path)
    assert key.content == "The deploy key is rotated every ninety days."
    assert (key.category, key.agent) == ("rule", "planner")
    assert key.tags == ("mcp-memory-service", "security", "agent:planner")
    assert key.key == f"mcp-memory/{key.id[:12]}"
    assert (port.category, port.agent, port.tags) == (None, "coder", ("mcp-memory-service", "ops", "note"))
    assert key.created == key.updated == 1795944628081


def test_what_the_exporter_of_mcp_memory_service_wrote(tmp_path: Path) -> None:
    memory = {"content": "Text.", "content_hash": "77c1de", "tags": ["a"], "created_at": 1763625700.0}
    document = {"export_metadata": {"total_memories": 2}, "memories": [memory, {"content": "no hash"}, 3]}
    file = tmp_path / "memories.json"
    file.write_text(json.dumps(document))
    found, *refused = mcp_memory_service.SOURCE.read(file)
    assert isinstance(found, Record)
    assert (found.id, found.tags, found.created) == ("77c1de", ("mcp-memory-service", "a"), 1763625700000)
    assert [type(each) for each in refused] == [RefusedItem, RefusedItem]


def test_claude_mem(tmp_path: Path) -> None:
    retry, old, summary = sample_records("claude-mem", claude_mem.SOURCE, tmp_path)
    assert (
        retry.content
        == "Retry added\n\nFor 429\n\nThe client retries.\n\n- Waits a second\n- At most five times"
    )
    assert retry.tags == ("claude-mem", "bugfix", "shop", "http", "retry")
    assert (retry.session, retry.created) == ("session-1", 1767225600000)
    assert (old.content, old.session) == ("Old text", "m-2")
    assert summary.collection == "reflection"
    assert summary.content == "Request: Fix the client\n\nLearned: Vendors limit rates\n\nCompleted: Retry"


def test_the_real_chroma(tmp_path: Path) -> None:
    trains, planes = sample_records("chroma", chroma_store.SOURCE, tmp_path)
    assert (trains.key, trains.content, trains.source) == ("notes/a", "Trains are late.", "a.md")
    assert set(trains.tags) == {"chroma", "source:a.md", "page:3", "draft:True"}
    assert planes.tags == ("chroma", "weight:0.5")
    assert trains.created


def test_the_real_langgraph(tmp_path: Path) -> None:
    peanuts, trains = sample_records("langgraph", langgraph.SOURCE, tmp_path)
    assert (peanuts.key, peanuts.content) == ("langgraph/memories/ann/peanuts", "Allergic to peanuts")
    assert peanuts.tags == ("langgraph", "memories", "ann", "health")
    assert peanuts.created == time_ms("2026-11-29 09:23:52")
    assert trains.content == "Prefers trains"


def test_an_item_of_langgraph_without_a_text_is_its_json(tmp_path: Path) -> None:
    table = "CREATE TABLE store (prefix text, key text, value text, created_at, updated_at, expires_at);"
    rows = """INSERT INTO store VALUES ('a', 'k', '{"n": 1}', '2026-01-01', NULL, '2026-02-01'),
      ('a', 'l', '[1]', NULL, NULL, NULL);"""
    found, refused = langgraph.SOURCE.read(write_database(tmp_path / "a.db", table + rows))
    assert isinstance(found, Record)
    assert (found.content, found.expires) == ('{"n": 1}', time_ms("2026-02-01"))
    assert isinstance(refused, RefusedItem)


def test_mempalace_with_either_store(tmp_path: Path) -> None:
    exact = tmp_path / "exact"
    exact.mkdir()
    drawer, fact = sample_records("mempalace", mempalace.SOURCE, exact)
    assert (drawer.content, drawer.agent) == ("The kiln is at 900 degrees.", "ann")
    assert drawer.tags == ("mempalace", "pottery", "kiln")
    assert drawer.created == time_ms("2026-01-02")
    assert fact.content == "Ann works at kiln"  # not where she worked before


def test_the_drawers_of_a_palace_in_chroma(tmp_path: Path) -> None:
    import chromadb

    client = chromadb.PersistentClient(str(tmp_path))
    drawers = client.get_or_create_collection("mempalace_drawers", embedding_function=None)
    drawers.add(ids=["d1"], documents=["Hot."], metadatas=[{"wing": "pottery"}], embeddings=[[1.0]])
    other = client.get_or_create_collection("mempalace_closets", embedding_function=None)
    other.add(ids=["c1"], documents=["Index."], embeddings=[[1.0]])
    (drawer,) = records_of(mempalace.SOURCE, tmp_path)
    assert (drawer.key, drawer.tags) == ("mempalace/d1", ("mempalace", "pottery"))


@pytest.mark.parametrize(
    "source", [chroma_store.SOURCE, claude_mem.SOURCE, mcp_memory_service.SOURCE, mempalace.SOURCE]
)
def test_a_folder_without_the_database_is_refused(source: MemorySource, tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        list(source.read(tmp_path))


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    file = write_database(tmp_path / "sqlite_vec.db", MEMPALACE)
    for source in (mcp_memory_service.SOURCE, langgraph.SOURCE, claude_mem.SOURCE, chroma_store.SOURCE):
        with pytest.raises(Unreadable, match="has no table"):
            list(source.read(file))
