from pathlib import Path

import pytest

from agentctx.cli.app import run
from tests.client.stub_daemon import ID
from tests.daemon.host.installed import FAILED, install


@pytest.mark.parametrize("command", [["status"], ["search", "standup"], ["get", ID], ["queue", "status"]])
def test_where_the_service_is_meant_its_state_is_said(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, says=FAILED)
    assert run(command) == 3
    said = capsys.readouterr().err
    assert "agentctx.service: failed, exit 78: /var/lib/agentctx/agentctx.db is missing" in said
    assert "sudo systemctl start agentctx" in said
    assert "agentctx serve" not in said
    assert run(["--socket", str(tmp_path / "mine"), *command]) == 3
    assert "agentctx.service" not in capsys.readouterr().err
