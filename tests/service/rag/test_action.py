"""The names in an action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.action import ActionNames, stems_in


def test_a_command_has_programs_flags_words_paths_and_operations() -> None:
    names = ActionNames.of("run", "cd app && sudo rm -rf --dir=old tmp/x.txt", "/home/a/p")
    assert {"sudo", "rm"} <= names.programs
    assert {"-rf", "-r", "-f", "--dir"} <= names.flags
    assert {"tmp/x.txt", "old"} <= names.words
    assert ("home", "a", "p", "app", "tmp", "x.txt") in names.paths
    assert {"remove", "sudo"} <= names.operations
    assert not names.is_reading


@pytest.mark.parametrize(
    "command",
    [
        "ls -la src",
        "git status --short && git log -3",
        "cat a.txt | sed -n 1,5p | sort",
        "kubectl --context prod -n a get pods",
        "psql db -c 'select 1'",
        "psql db -c '\\d+ users'",
        "redis-cli KEYS 'a:*'",
        "ssh host uptime",
        "terraform plan -out=/tmp/x",
        "prettier --check src",
        "X=1",
        "cat a > /tmp/b",
    ],
)
def test_commands_that_change_nothing(command: str) -> None:
    assert ActionNames.of("run", command).is_reading


@pytest.mark.parametrize(
    "command",
    [
        "sed -i s/a/b/ x",
        "yq -i '.a = 1' x.yml",
        "cat a > b",
        "psql db -c 'delete from t'",
        "alembic upgrade head",
        "ssh host reboot",
        "ls; make",
    ],
)
def test_commands_that_may_change_something(command: str) -> None:
    assert not ActionNames.of("run", command).is_reading


def test_prose_in_an_option_is_not_what_the_command_names() -> None:
    assert "patient" not in ActionNames.of("run", "git commit -m 'delete the patients table'").stems


def test_a_file_is_named_from_the_folder_of_the_action() -> None:
    names = ActionNames.of("write", "/home/a/p/src/App.tsx", "/home/a/p")
    assert (names.text, names.is_file, names.is_reading) == ("src/App.tsx", True, False)
    assert ActionNames.of("read", "x", "/p").is_reading


def test_stems_of_compounds() -> None:
    assert stems_in("LedgerWriter-2 db_tables") == {"ledger", "writer", "2", "db", "tabl"}


@given(st.text(max_size=80), st.sampled_from(["run", "write", "read"]), st.text(max_size=20))
def test_any_action_has_names(text: str, kind: str, folder: str) -> None:
    ActionNames.of(kind, text, folder)  # type: ignore[arg-type]
