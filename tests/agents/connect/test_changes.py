from pathlib import Path

import pytest

from agentctx.agents.connect.changes import connect_change, disconnect_change
from agentctx.agents.connect.edits import ConfigEdit
from agentctx.errors import ConfigInvalid

PATH = Path("/home/ann/.x/settings.json")
SERVER = ConfigEdit("member", ("mcpServers", "agentctx"), {"command": "/x/agentctx", "args": ["mcp"]})
OURS = ConfigEdit("file", (), "ours\n")


def test_connecting_twice_changes_nothing_with_or_without_a_ledger() -> None:
    first = connect_change(PATH, "cursor", b"{}", None, [SERVER])
    assert first is not None
    assert connect_change(PATH, "cursor", first.after, first.written, [SERVER]) is None
    assert connect_change(PATH, "cursor", first.after, None, [SERVER]) is None


def test_a_file_deleted_meanwhile_stays_deleted() -> None:
    first = connect_change(PATH, "cursor", b"{}", None, [SERVER])
    assert first is not None
    assert first.written is not None
    assert disconnect_change(PATH, None, first.written).after is None


def test_an_edited_file_of_ours_is_not_removed() -> None:
    first = connect_change(PATH, "copilot", None, None, [OURS])
    assert first is not None
    assert first.written is not None
    assert disconnect_change(PATH, b"ours\n", first.written).after is None
    with pytest.raises(ConfigInvalid, match="was edited since"):
        disconnect_change(PATH, b"theirs\n", first.written)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match="not UTF-8"):
        connect_change(PATH, "cursor", b"\xff\xfe", None, [SERVER])
