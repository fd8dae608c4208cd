"""What the figures of the project count."""

from __future__ import annotations

from pathlib import Path

from tests.code_rules.check import operation_names
from tests.code_rules.figures import circles, figures, imports, rooms
from tests.code_rules.rules import Source


def program(**modules: str) -> list[Source]:
    return [Source(f"agentctx/{name.replace('__', '/')}.py", text) for name, text in modules.items()]


def test_a_room_is_a_package_at_the_top() -> None:
    assert rooms(program(errors="", wire__entries="", wire__names="", service__rag__fuse="")) == {
        "wire",
        "service",
    }


def test_a_circle_also_leads_through_late_imports_and_imports_of_types() -> None:
    files = program(
        a="from agentctx.b import thing",
        b="def f():\n    from agentctx import c",
        c="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agentctx.a import A",
        d="import agentctx.a",
    )
    assert circles(imports(files)) == [frozenset({"agentctx.a", "agentctx.b", "agentctx.c"})]


def test_each_figure_is_counted(tmp_path: Path) -> None:
    files = {
        "agentctx/service/trust.py": f"def {operation_names()[-1]}():\n    return 1\n",
        "packages/agentctx-one/agentctx_one/engine.py": "x = 1\n",
        "packages/agentctx-one/tests/agentctx_one_tests/test_engine.py": "x = 1\n",
        "agentctx/cli/forget.py": "x = 1\n",
        "agentctx/cli/undo.py": "x = 1\n",
        "tests/service/test_trust.py": "x = 1\ny = 2\n",
        "tests/cli/transcripts/forget.txt": "$ agentctx forget 1\n",
        "README.md": "Four words in all.\n",
        "docs/cli.md": "Made by a program.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    found = {name.partition(",")[0]: value for name, value in figures(tmp_path)}

    assert found.pop("files of the last operation") == "1"
    assert found.pop("files of the operation in most files") == "1"
    assert found == {
        "lines of the daemon's package": "4",
        "lines of all packages": "5",
        "lines of tests": "3",
        "modules whose test has their name": "2 of 3",
        "rooms": "2",
        "circles": "0",
        "functions per 100 lines": "25.0",
        "words of docs": "4",
    }
