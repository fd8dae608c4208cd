import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx.config.project_file import parse_namespace, project_namespace
from agentctx.errors import ConfigInvalid


def test_the_nearest_file_upwards_names_the_namespace(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert project_namespace(below) is None
    (tmp_path / ".agentctx.toml").write_text('namespace = "outer"\n')
    assert project_namespace(below) == "outer"
    (tmp_path / "a" / ".agentctx.toml").write_text('# ours\nnamespace = "git:host/team/repo"\n')
    assert project_namespace(below) == "git:host/team/repo"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "namespace = 1",
        'namespace = ""',
        'namespace = "*"',
        'namespace = "a b"',
        f'namespace = "{"a" * 129}"',
        'namespace = "a"\nsocket = "/tmp/evil.sock"',
        '[namespace]\nname = "a"',
        "namespace =",
        '\x00namespace = "a"',
    ],
)
def test_a_hostile_file_can_do_no_more_than_name_a_namespace(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="project file"):
        parse_namespace(text, "project file")


def test_a_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".agentctx.toml").write_text("#" * 5000)
    with pytest.raises(ConfigInvalid, match="larger than 4096 bytes"):
        project_namespace(tmp_path)


def test_a_file_that_is_not_regular_is_skipped(tmp_path: Path) -> None:
    (tmp_path / ".agentctx.toml").write_text('namespace = "outer"')
    makers: list[Callable[[Path], None]] = [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd")]
    for number, make in enumerate(makers):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / ".agentctx.toml")
        assert project_namespace(folder) == "outer"


def test_a_file_of_another_user_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".agentctx.toml").write_text('namespace = "theirs"')
    monkeypatch.setattr("agentctx.config.project_file._is_trusted", lambda _: False)
    assert project_namespace(tmp_path) is None
