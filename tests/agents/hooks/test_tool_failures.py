import pytest

from agentctx.agents.hooks.tool_failures import MAX_CALLS_BETWEEN, ToolUse, error_line, learned

ERROR = "Traceback:\n  File x\npsql: error: connection refused\nexit code 2"
FAILED = ToolUse("c1", "Bash", "cd db && psql shop", ERROR)


def bash(command: str) -> ToolUse:
    return ToolUse(f"id of {command}", "Bash", command)


def test_a_fix_of_a_failed_command_is_learned() -> None:
    ((call, learning),) = learned([FAILED, bash("ls"), bash("PGHOST=db-2 psql shop"), bash("psql -l")])
    assert call == "id of PGHOST=db-2 psql shop"
    assert learning.trigger == "tool:Bash psql"
    assert learning.error_pattern == "psql: error: connection refused"
    assert learning.fix == "`cd db && psql shop` failed; this worked: `PGHOST=db-2 psql shop`"


@pytest.mark.parametrize("command", ["cd db && psql shop", "pytest"])
def test_a_failed_fix_is_not_learned(command: str) -> None:
    assert list(learned([FAILED, bash(command)])) == []


def test_a_late_success_has_little_to_do_with_the_failure() -> None:
    between = [bash(f"ls {number}") for number in range(MAX_CALLS_BETWEEN)]
    assert list(learned([FAILED, *between[1:], bash("psql -h db-2")])) != []
    assert list(learned([FAILED, *between, bash("psql -h db-2")])) == []


def test_failures_of_different_files_are_separate() -> None:
    failed = ToolUse("c1", "Edit", "/a.py", "String not found in file")
    assert list(learned([failed, ToolUse("c2", "Edit", "/b.py")])) == []


@pytest.mark.parametrize("failed", [FAILED._replace(error=" \n"), FAILED._replace(target="")])
def test_a_failure_without_a_message_or_a_target_teaches_nothing(failed: ToolUse) -> None:
    assert list(learned([failed, bash("psql -h db-2"), bash("")])) == []


def test_the_telling_line_is_the_last_that_sounds_like_an_error() -> None:
    assert error_line(ERROR) == "psql: error: connection refused"
    assert error_line("one\ntwo\n") == "two"
    assert error_line(" \n") == ""
