from pathlib import Path

from agentctx.agents.connect.ledger import ConnectedFile, Ledger


def test_concurrent_connects_keep_each_others_record(tmp_path: Path) -> None:
    path = tmp_path / "state/connections.json"
    one, other = Ledger(path), Ledger(path)
    codex = ConnectedFile("codex", b"\xff", "d", ())
    gemini = ConnectedFile("gemini", None, "d", (), (tmp_path,), tmp_path)
    one.record(Path("/a"), codex)
    other.record(Path("/b"), gemini)
    assert Ledger(path).all() == {Path("/a"): codex, Path("/b"): gemini}
    one.record(Path("/a"), None)
    assert Ledger(path).agents(tmp_path) == ["gemini"]
    assert Ledger(path).agents() == []
