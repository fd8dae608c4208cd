import json
import os
import pwd
import stat
import tomllib
from pathlib import Path

import pytest

from agentctx.cli.access import NamedGrant, with_grant
from agentctx.cli.app import run
from agentctx.errors import ConfigInvalid

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


def test_repeating_a_grant_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    listed = json.loads(capsys.readouterr().out)
    [shown] = listed["grants"]
    assert listed["file"] == str(file)
    assert (shown["user"], shown["namespaces"], shown["rights"]) == (None, ["team-*"], "read")
    assert run(["access", "list"]) == 0
    printed = capsys.readouterr()
    assert "team-*" in printed.out
    assert not printed.err


def test_the_metrics_are_granted_without_a_namespace(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for said in ("granted", "already granted"):
        assert run(["access", "grant", ME, "--metrics"]) == 0
        assert capsys.readouterr().out == f"{said}  {ME}  metrics  {file}\n"
    assert tomllib.loads(file.read_text())["access"]["grants"] == [{"uid": ME, "rights": "metrics"}]
    assert run(["access", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [ME, "metrics"]
    for wrong in (["team", "--metrics"], []):
        assert run(["access", "grant", ME, *wrong]) == 2
    file.write_text('[access]\ngrants = [{ uid = 0, namespaces = ["a"], rights = "metrics" }]\n')
    assert run(["config", "check"]) == 1


def test_without_a_config_there_are_no_grants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AGENTCTX_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run(["access", "list"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, "no grants" in printed.err) == ("", True)
    assert run(["access", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": None, "grants": []}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["no-such-user-here", "team"], 2),
        ([ME, "te*am"], 1),
        ([ME, ""], 1),
        ([ME, "team", "--dry-run"], 0),
    ],
)
def test_refused_grants_and_dry_runs_do_not_change_the_file(
    file: Path, arguments: list[str], code: int
) -> None:
    before = file.read_bytes()
    assert run(["access", "grant", *arguments]) == code
    assert file.read_bytes() == before


def test_an_invalid_config_is_not_modified(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("[nonsense]\nx = 1\n")
    assert run(["access", "grant", ME, "team"]) == 1
    assert "nonsense" in capsys.readouterr().err
    assert file.read_text() == "[nonsense]\nx = 1\n"


ALICE = NamedGrant(kind="uid", name="alice", namespace="team", rights="write")
TABLE = {"uid": "alice", "namespaces": ["team"], "rights": "write"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        '# ours\n[server]\nsocket_mode = "0660"  # the group\'s',
        '[access]\ngrants = []  # none\n\n[log]\nlevel = "info"\n',
        '[[access.grants]]\ngid = "agents"\nnamespaces = ["*"]\nrights = "read"\n\n[log]\n',
    ],
)
def test_a_grant_is_added_and_everything_else_preserved(text: str) -> None:
    edited = with_grant(text, ALICE)
    before, after = tomllib.loads(text), tomllib.loads(edited)
    grants = before.get("access", {}).get("grants", [])
    assert after["access"]["grants"] == [*grants, TABLE]
    assert {**after, "access": 0} == {**before, "access": 0}
    for line in text.splitlines():
        assert line.startswith("grants") or line in edited.splitlines()
    assert with_grant(edited, ALICE) == edited


def test_a_number_stays_a_number() -> None:
    edited = with_grant("", NamedGrant(kind="gid", name="1001", namespace="*", rights="read"))
    assert tomllib.loads(edited)["access"]["grants"][0]["gid"] == 1001


def test_a_hostile_name_stays_a_name() -> None:
    evil = 'team"]\nrights = "admin"\n#'
    edited = with_grant("", NamedGrant(kind="uid", name="alice", namespace=evil, rights="read"))
    assert tomllib.loads(edited)["access"]["grants"] == [
        {"uid": "alice", "namespaces": [evil], "rights": "read"}
    ]


def test_uneditable_grants_are_not_modified() -> None:
    text = 'access = { grants = [{ uid = "bob", namespaces = ["*"], rights = "read" }] }'
    with pytest.raises(ConfigInvalid) as raised:
        with_grant(text, ALICE)
    assert '{ uid = "alice", namespaces = ["team"], rights = "write" }' in raised.value.hint
    with pytest.raises(ConfigInvalid, match="not valid TOML"):
        with_grant("[access", ALICE)
