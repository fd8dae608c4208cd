import json
from collections.abc import Callable

import pytest

from tests.client.stub_daemon import ID, StubDaemon, save_result

Agentctx = Callable[..., int]


@pytest.mark.parametrize(("flag", "success"), [("--success", True), ("--failure", False)])
def test_an_outcome_is_reported(
    agentctx: Agentctx,
    daemon: StubDaemon,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    success: bool,
) -> None:
    daemon.answer("POST", f"/v1/learnings/{ID}/outcome", (200, save_result()))

    assert agentctx("learning", "outcome", ID, flag) == 0
    assert daemon.seen[0].body == {"success": success}
    assert capsys.readouterr().out == f"saved  {ID}  version 1  embedding pending\n"
    assert agentctx("learning", "outcome", ID, flag, "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == ID


@pytest.mark.parametrize("flags", [(), ("--success", "--failure")])
def test_exactly_one_outcome_is_needed(
    agentctx: Agentctx, daemon: StubDaemon, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    assert agentctx("learning", "outcome", ID, *flags) == 2
    assert "exactly one of --success and --failure" in capsys.readouterr().err
    assert not daemon.seen
