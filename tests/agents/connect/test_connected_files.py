from pathlib import Path

from agentctx.agents.connect.connected_files import ConnectedFile, ConnectedFiles


def test_concurrent_connects_keep_each_others_record(tmp_path: Path) -> None:
    path = tmp_path / "state/connections.json"
    one, other = ConnectedFiles(path), ConnectedFiles(path)
    codex = ConnectedFile("codex", b"\xff", "d", ())
    gemini = ConnectedFile("gemini", None, "d", (), (tmp_path,), tmp_path)
    one.record(Path("/a"), codex)
    other.record(Path("/b"), gemini)
    assert ConnectedFiles(path).all() == {Path("/a"): codex, Path("/b"): gemini}
    one.record(Path("/a"), None)
    assert ConnectedFiles(path).agents(tmp_path) == ["gemini"]
    assert ConnectedFiles(path).agents() == []
