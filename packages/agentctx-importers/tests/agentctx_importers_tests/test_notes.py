import json
import os
from pathlib import Path

import pytest

from agentctx_importers.json_values import time_ms
from agentctx_importers.notes import BASIC_MEMORY, OBSIDIAN
from agentctx_importers.records import Record, RefusedItem
from agentctx_importers_tests.reading import records_of, sample_records


def test_a_note_of_the_real_basic_memory(tmp_path: Path) -> None:
    (note,) = sample_records("basic-memory", BASIC_MEMORY, tmp_path)
    assert note.key == "main/coffee/coffee-brewing"
    assert note.tags == ("basic-memory", "coffee", "brewing", "pour-over", "brewing")
    assert note.content.startswith("# Coffee Brewing\n\n- [method] Pour over")
    assert note.content.endswith("- relates_to [[Coffee Beans]]")


def test_notes_of_a_vault(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    os.utime(vault)
    ann, daily = sample_records("obsidian", OBSIDIAN, vault)
    assert (ann.key, ann.content, ann.created) == ("vault/Ann", "# Ann", time_ms("2026-01-01"))
    assert daily.key == "vault/daily/2026-01-02"
    assert daily.tags == ("obsidian", "log", "work", "people/ann")
    assert daily.content == "# 2026-01-02\n\nMet [[Ann]]. #people/ann"


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#a, #b-c/d and (#not) x#y &#39; #123 [#no](x)", ["a", "b-c/d"]),
        ("`#code`\n```\n#include\n```\n~~~\n# x #y\n~~~\n#yes", ["yes"]),
        ("---\ntags: '#a'\n---\n", ["a"]),
        ("---\ntags:\n  - a\n  - b c\ntag: d\n---\n", ["a", "b c", "d"]),
        ("# Heading\n## #tag in it", ["tag"]),
        ("https://example.org/#anchor", []),
        ("#größe #日本", ["größe", "日本"]),
    ],
)
def test_tags(text: str, tags: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(text, "utf-8")
    (note,) = records_of(OBSIDIAN, tmp_path)
    assert list(note.tags[1:]) == tags


def test_two_notes_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for vault in ("one", "two"):
        (tmp_path / vault).mkdir()
        (tmp_path / vault / "a.md").write_text("text")
    found = [each.id for vault in ("one", "two") for each in records_of(OBSIDIAN, tmp_path / vault)]
    assert found == ["one/a", "two/a"]


def test_what_is_not_utf8_is_read_and_what_is_too_large_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctx_importers.files.MAX_TEXT_BYTES", 100)
    (tmp_path / "a.md").write_bytes(b"caf\xe9")
    (tmp_path / "b.md").write_bytes(b"x" * 101)
    os.mkfifo(tmp_path / "c.md")
    first, second = OBSIDIAN.read(tmp_path)
    assert isinstance(first, Record)
    assert "caf\ufffd" in first.content
    assert isinstance(second, RefusedItem)
    assert second.reason == "It has more than 100 bytes."


def test_the_usual_places_are_what_the_programs_have_noted(home: Path) -> None:
    assert BASIC_MEMORY.usual() == [home / "basic-memory"]
    assert OBSIDIAN.usual() == []
    (home / ".basic-memory").mkdir()
    projects = {"main": {"path": "/a"}, "old": "/b", "odd": 3}
    (home / ".basic-memory" / "config.json").write_text(json.dumps({"projects": projects}))
    (home / ".config" / "obsidian").mkdir(parents=True)
    vaults = {"x": {"path": "/v"}, "y": {}}
    (home / ".config" / "obsidian" / "obsidian.json").write_text(json.dumps({"vaults": vaults}))
    assert BASIC_MEMORY.usual() == [Path("/a"), Path("/b")]
    assert OBSIDIAN.usual() == [Path("/v")]
