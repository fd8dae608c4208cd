import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from agentctx.cli.options import KNOWLEDGE_CATEGORIES, LEARNING_CATEGORIES, complete_collection
from agentctx.service.stores.fields import KnowledgeCategory, LearningCategory
from agentctx.wire import COLLECTIONS

ASK_BASH = """
source <(agentctx --show-completion)
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_agentctx_completion agentctx
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_categories_match_the_stores() -> None:
    assert get_args(KnowledgeCategory) == KNOWLEDGE_CATEGORIES
    assert get_args(LearningCategory) == LEARNING_CATEGORIES


def test_collections_of_the_config_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.toml"
    monkeypatch.setenv("AGENTCTX_CONFIG", str(file))
    assert complete_collection() == [*COLLECTIONS]
    file.write_text("[collections.keepsakes]\n")
    assert complete_collection() == [*COLLECTIONS, "keepsakes"]
    file.write_text("[collections")
    assert complete_collection() == [*COLLECTIONS]
    file.write_text("collections = 3")
    assert complete_collection() == [*COLLECTIONS]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("agentctx sta", {"status"}),
        ("agentctx queue ''", {"status", "retry", "drain"}),
        ("agentctx search why --max", {"--max-distance"}),
        ("agentctx search why --order ''", {"distance", "relevance"}),
        ("agentctx save knowledge text --category p", {"preference", "pattern"}),
        ("agentctx list --category p", {"preference", "pattern", "provider_error", "permission"}),
        ("agentctx save learning --category t", {"tool_error", "timeout"}),
        ("agentctx save knowledge text --origin u", {"user"}),
        ("agentctx search why -c o", {"observation"}),
    ],
)
def test_bash_completes(words: str, offered: set[str]) -> None:
    script = ASK_BASH.format(words=words)
    done = subprocess.run(["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize(
    ("shell", "variables", "offered"),
    [
        ("zsh", {}, '"drain"'),
        ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "drain\t"),
    ],
)
def test_other_shells_get_their_own_syntax(shell: str, variables: dict[str, str], offered: str) -> None:
    env = {**ENVIRONMENT, **variables, "_TYPER_COMPLETE_ARGS": "agentctx queue d"}
    done = subprocess.run(
        ["agentctx"],
        env={**env, "_AGENTCTX_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert offered in done.stdout


def test_completing_loads_neither_client_nor_server() -> None:
    script = (
        "import atexit, sys\nheavy = {'httpx', 'fastapi', 'numpy', 'uvicorn', 'rich', 'aiosqlite'}\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(heavy & set(sys.modules))))\n"
        "from agentctx.cli import main\nmain([])"
    )
    env = {
        **ENVIRONMENT,
        "_AGENTCTX_COMPLETE": "complete_bash",
        "COMP_WORDS": "agentctx search -c ",
        "COMP_CWORD": "3",
    }
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["knowledge", "observation", "reflection", "learning"]
    assert done.stderr == ""
