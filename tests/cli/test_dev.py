from __future__ import annotations

import sys
from importlib import import_module, metadata

import pytest

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
    assert error == "error: `agentctx dev` needs the package agentctx-testing, which is not installed."
    assert "install ./packages/agentctx-testing" in hint
