import pytest

from agentctx.mcp.tool_failures import MOST_CALLS_BETWEEN, ToolFailures, ToolUse, telling_line

ERROR = "Traceback:\n  File x\npsql: error: connection refused\nexit code 2"


def bash(command: str) -> ToolUse:
    return ToolUse("Bash", command)


def test_what_made_a_failed_command_work_is_learned() -> None:
    failures = ToolFailures()
    failures.failed("s", bash("cd db && psql shop"), ERROR)
    assert failures.succeeded("s", bash("ls")) is None
    learning = failures.succeeded("s", bash("PGHOST=db-2 psql shop"))
    assert learning is not None
    assert learning.trigger == "tool:Bash psql"
    assert learning.error_pattern == "psql: error: connection refused"
    assert "`cd db && psql shop` failed; this worked: `PGHOST=db-2 psql shop`" in learning.fix
    assert failures.succeeded("s", bash("PGHOST=db-2 psql shop")) is None, "it is learned once"


@pytest.mark.parametrize(
    ("session", "command"), [("other", "psql -h db-2"), ("s", "psql shop"), ("s", "pytest")]
)
def test_what_did_not_fix_it_teaches_nothing(session: str, command: str) -> None:
    failures = ToolFailures()
    failures.failed("s", bash("psql shop"), ERROR)
    assert failures.succeeded(session, bash(command)) is None


def test_a_late_success_has_little_to_do_with_the_failure() -> None:
    failures = ToolFailures()
    failures.failed("s", bash("psql shop"), ERROR)
    for number in range(MOST_CALLS_BETWEEN):
        failures.succeeded("s", bash(f"ls {number}"))
    assert failures.succeeded("s", bash("psql -h db-2")) is None


def test_a_file_is_another_matter_than_the_next() -> None:
    failures = ToolFailures()
    failures.failed("s", ToolUse("Edit", "/a.py"), "String not found in file")
    assert failures.succeeded("s", ToolUse("Edit", "/b.py")) is None


def test_the_telling_line_is_the_last_that_sounds_like_an_error() -> None:
    assert telling_line(ERROR) == "psql: error: connection refused"
    assert telling_line("one\ntwo\n") == "two"
    assert telling_line(" \n") == ""
