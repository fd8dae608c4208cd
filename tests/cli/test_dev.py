from __future__ import annotations

import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

from agentctx import __version__
from agentctx.cli.app import run


@pytest.mark.parametrize("words", [["fake-provider"], ["fake-provider", "--port", "0", "--fault=429"]])
def test_without_its_package_it_says_how_to_install_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_module("agentctx.cli.dev")
    monkeypatch.delitem(sys.modules, "agentctx.cli.dev")
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    assert run(["dev", *words]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: `agentctx dev` needs the package agentctx-testing."
    assert "install ./packages/agentctx-testing" in hint


UNUSABLE = [
    (__version__, "no_such_module:app", "needs the package no_such_module"),
    (__version__, "tests.ports:app", "which is incomplete here"),
    ("0.0.9", "tests.ports:app", "agentctx-old 0.0.9 is not for"),
]


@pytest.mark.parametrize(("version", "target", "problem"), UNUSABLE)
def test_an_unusable_package_breaks_no_other_command(
    version: str,
    target: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    info = tmp_path / "agentctx_old-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: agentctx-old\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[agentctx.commands]\ndev = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("agentctx.cli.dev")
    monkeypatch.delitem(sys.modules, "agentctx.cli.dev")

    assert run(["--help"]) == 0
    assert run(["dev", "fake-provider"]) == 1
    assert problem in capsys.readouterr().err
