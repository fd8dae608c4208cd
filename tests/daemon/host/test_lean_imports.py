import sys

import pytest

from agentctx.daemon.host.lean_imports import hide_modules


def test_hidden_modules_cannot_be_imported_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with hide_modules("this"), pytest.raises(ModuleNotFoundError):
        __import__("this")
    assert "this" not in sys.modules


def test_modules_already_imported_stay() -> None:
    with hide_modules("json"):
        assert __import__("json") is sys.modules["json"]
    assert sys.modules["json"] is not None
