"""Blocks of README and docs that no test runs: settings are valid, JSON and programs can be read."""

from __future__ import annotations

import grp
import json
import pwd
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx.config.schema import Settings
from agentctx.text.redaction.rules import load_rules

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("packages/*/README.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.M)


def read_toml(text: str, folder: Path) -> None:
    """Accept a config, or a file of redaction rules."""
    table = tomllib.loads(text)
    if any("regex" in section for section in table.values()):
        (folder / "rules.toml").write_text(text, encoding="utf-8")
        load_rules(folder / "rules.toml")
    else:
        Settings.model_validate(table)


def read_json(text: str, _: Path) -> None:
    json.loads(text)


def read_shell(text: str, _: Path) -> None:
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def read_python(text: str, _: Path) -> None:
    compile(text, "block", "exec")


def read_nothing(_: str, __: Path) -> None:
    """Accept what only people read."""


READ: dict[str, Callable[[str, Path], None]] = {
    "toml": read_toml,
    "json": read_json,
    "sh": read_shell,
    "python": read_python,
}


@pytest.fixture(autouse=True)
def named_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user and group of the pages exists."""
    monkeypatch.setattr(pwd, "getpwnam", lambda _: pwd.getpwuid(0))
    monkeypatch.setattr(grp, "getgrnam", lambda _: grp.getgrgid(0))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_can_be_read(page: Path, tmp_path: Path) -> None:
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        READ.get(language, read_nothing)(text, tmp_path)


@pytest.mark.parametrize(
    ("language", "text"),
    [("toml", "[rag]\nmaximum = 3\n"), ("toml", "x ="), ("json", "{…}"), ("sh", "if"), ("python", "def")],
)
def test_a_broken_block_is_noticed(language: str, text: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, SyntaxError, subprocess.CalledProcessError)):
        READ[language](text, tmp_path)
