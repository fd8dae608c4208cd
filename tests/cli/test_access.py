import json
import os
import pwd
import stat
import tomllib
from pathlib import Path

import pytest

from agentctx.cli.app import run

ME = pwd.getpwuid(os.getuid()).pw_name
GRANT = {"uid": ME, "namespaces": ["team"], "rights": "write"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config.toml"
    file.write_text('# ours\n[log]\nlevel = "info"\n')
    file.chmod(0o640)
    monkeypatch.setenv("AGENTCTX_CONFIG", str(file))
    return file


def test_a_grant_is_written_to_the_config(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["access", "grant", ME, "team"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"granted  {ME}  write  team  {file}\n"
    assert "systemctl reload agentctx" in printed.err
    assert file.read_text().startswith('# ours\n[log]\nlevel = "info"\n')
    assert tomllib.loads(file.read_text())["access"]["grants"] == [GRANT]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert run(["config", "check"]) == 0


def test_a_second_time_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["access", "grant", ME, "team"])
    before = file.read_bytes()
    assert run(["access", "grant", ME, "team"]) == 0
    assert "already granted" in capsys.readouterr().out
    assert file.read_bytes() == before


def test_reading_and_groups(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["access", "grant", "0", "team-*", "--group", "--read"]) == 0
    assert tomllib.loads(file.read_text())["access"]["grants"] == [
        {"gid": 0, "namespaces": ["team-*"], "rights": "read"}
    ]
    capsys.readouterr()
    assert run(["access", "list", "--json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)["grants"]
    assert (shown["user"], shown["namespaces"], shown["rights"]) == (None, ["team-*"], "read")
    assert run(["access", "list"]) == 0
    assert "team-*" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["no-such-user-here", "team"], 2),
        ([ME, "te*am"], 1),
        ([ME, ""], 1),
        ([ME, "team", "--dry-run"], 0),
    ],
)
def test_what_is_refused_or_rehearsed_leaves_the_file_as_it_was(
    file: Path, arguments: list[str], code: int
) -> None:
    before = file.read_bytes()
    assert run(["access", "grant", *arguments]) == code
    assert file.read_bytes() == before


def test_a_config_that_is_wrong_already_is_not_touched(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("[nonsense]\nx = 1\n")
    assert run(["access", "grant", ME, "team"]) == 1
    assert "nonsense" in capsys.readouterr().err
    assert file.read_text() == "[nonsense]\nx = 1\n"
