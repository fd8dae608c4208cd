"""Reading shell commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.shell import SimpleCommand, commands_in


def programs(text: str) -> list[str]:
    return [" ".join([command.program, *command.words]).strip() for command in commands_in(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("make test", ["make test"]),
        ("a 1 && b 2 || c 3; d | e & f", ["a 1", "b 2", "c 3", "d", "e", "f"]),
        ("(cd x && make) > log", ["cd x", "make", ""]),
        ("echo 'a && b' \"c | d\"", ["echo a && b c | d"]),
        ("ls # rm -rf /", ["ls"]),
        ("git log --format='%h #%s'", ["git log --format=%h #%s"]),
        ("for f in a b; do rm $f; done", ["for f in a b", "rm $f"]),
        ("if ! test -f x; then touch x; fi", ["test -f x", "touch x"]),
        ("one \\\n  two\nthree", ["one two", "three"]),
        ("/usr/local/bin/kubectl get pods", ["kubectl get pods"]),
        ("sudo -u bob rm -rf x", ["sudo -u bob", "rm -rf x"]),
        ("env A=b nice -n 10 make", ["env A=b", "nice -n 10", "make"]),
        ("timeout -k 5 60 pytest -x", ["timeout -k 5 60", "pytest -x"]),
        ("uv run --with rich pytest -q", ["uv run --with rich", "pytest -q"]),
        ("uv sync", ["uv sync"]),
        ("npx -p typescript tsc", ["npx -p typescript", "tsc"]),
        ("python -m pytest tests", ["python -m", "pytest tests"]),
        ("poetry run flask db upgrade", ["poetry run", "flask db upgrade"]),
        ("ls | xargs -n 1 rm", ["ls", "xargs -n 1", "rm"]),
        ("find . -name '*.o' -exec rm {} \\;", ["find . -name *.o -exec", "rm {}"]),
        ("docker exec -it db psql -l", ["docker exec -it db", "psql -l"]),
        (
            "docker compose -f dev.yml exec -T -u root db psql -c 'select 1'",
            ["docker compose -f dev.yml exec -T -u root db", "psql -c select 1"],
        ),
        ("docker compose up -d", ["docker compose up -d"]),
        ("kubectl -n a exec pod-1 -c app -- df -h", ["kubectl -n a exec pod-1 -c app --", "df -h"]),
        ("ssh -p 22 root@h 'df; uptime'", ["ssh -p 22 root@h", "df", "uptime"]),
        ("ssh host sudo reboot", ["ssh host", "sudo", "reboot"]),
        ("ssh host", ["ssh host"]),
        ("bash -lc 'cd a && make'", ["bash -lc cd a && make", "cd a", "make"]),
        ("make 'unclosed && rm x", ["make unclosed", "rm x"]),
        ("", []),
        ("&& | ;", []),
    ],
)
def test_the_programs_of_a_command(text: str, expected: list[str]) -> None:
    assert programs(text) == expected


def test_folders_assignments_and_files_that_are_written() -> None:
    found = commands_in("cd a; cd b && X=1 make all > out.log 2>&1; cat < in >> /tmp/o")
    assert found[2] == SimpleCommand("make", ("all",), ("X=1",), ("out.log",), "a/b")
    assert found[3] == SimpleCommand("cat", ("in",), (), ("/tmp/o",), "a/b")


def test_a_here_document_is_the_input_of_its_command() -> None:
    one, two = commands_in("psql db <<'SQL'\ndelete from t;\nSQL\nls")
    assert (one.program, one.words, one.stdin) == ("psql", ("db",), "delete from t;\n")
    assert (two.program, two.stdin) == ("ls", "")
    (unfinished,) = commands_in("psql <<SQL\nselect 1")
    assert unfinished.stdin == "select 1"


@given(st.text(alphabet="ab -'\"\\|&;<>()$`{}\n=#/<", max_size=60) | st.text(max_size=60))
def test_any_text_has_a_result(text: str) -> None:
    for command in commands_in(text):
        assert all(command.words)


@given(st.lists(st.sampled_from(["sudo", "env", "ssh h", "bash -c", "docker compose exec x", "--", "'"])))
def test_wrappers_of_wrappers_come_to_an_end(words: list[str]) -> None:
    assert len(commands_in(" ".join(words))) <= 2 * len(words) + 2
