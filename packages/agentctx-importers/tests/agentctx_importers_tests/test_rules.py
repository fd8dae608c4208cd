from pathlib import Path

import pytest

from agentctx.config.project import own_namespace
from agentctx_importers.records import Record, RefusedItem
from agentctx_importers.rules import SOURCE, auto_memory


def records(path: Path) -> list[Record]:
    items = list(SOURCE.read(path))
    assert not [each for each in items if isinstance(each, RefusedItem)]
    return [each for each in items if isinstance(each, Record)]


def test_a_section_is_named_by_its_headings_and_code_has_none(tmp_path: Path) -> None:
    file = tmp_path / "CLAUDE.md"
    file.write_text(
        "Before.\n# One\n```sh\n# no heading\n```\n## Two ##\n\ntext\n# One\nagain\n# Empty\n",
        encoding="utf-8",
    )
    found = {each.key: each.content for each in records(tmp_path)}
    assert found == {
        "CLAUDE.md": "Before.",
        "CLAUDE.md#One": "One\n\n```sh\n# no heading\n```",
        "CLAUDE.md#One > Two": "One > Two\n\ntext",
        "CLAUDE.md#One (2)": "One\n\nagain",
    }
    assert {each.category for each in records(tmp_path)} == {"rule"}


def test_a_file_is_read_once_even_if_another_name_is_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use make.")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert [each.key for each in records(tmp_path)] == ["CLAUDE.md"]


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root:x:0:0")
    project = tmp_path / "project"
    (project / ".cursor").mkdir(parents=True)
    (project / "CLAUDE.md").symlink_to(tmp_path / "secret")
    (project / ".cursor" / "rules").symlink_to(tmp_path)
    assert records(project) == []


def test_what_the_user_wrote_for_every_project_belongs_to_the_user(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "CLAUDE.md").write_text("Answer in German.")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AGENTS.md").write_text("Use make.")
    found = [each for place in SOURCE.usual() for each in records(place)]
    assert [(each.key, each.namespace) for each in found] == [
        ("AGENTS.md", None),
        (".claude/CLAUDE.md", own_namespace()),
    ]


def test_what_claude_code_remembers_of_a_project_is_no_rule(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "my_project"
    project.mkdir()
    memory = auto_memory(project)
    memory.mkdir(parents=True)
    assert memory.is_relative_to(home)
    assert memory.parent.name.endswith("-my-project")
    (memory / "MEMORY.md").write_text("- The port is 8081.")
    assert [(each.key, each.category) for each in records(project)] == [("memory/MEMORY.md", "fact")]


def test_the_users_rules_are_read_once_in_the_users_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".codex").mkdir()
    (home / ".codex" / "AGENTS.md").write_text("Answer briefly.")
    monkeypatch.chdir(home)
    found = list(SOURCE.prepared("rules", None, "here", 10**12, is_given=False))
    assert [(each.where, each.is_duplicate) for each in found] == [(".codex/AGENTS.md", False)]
