from pathlib import Path

import pytest

from agentctx.connect.changes import connected, disconnected
from agentctx.connect.edits import ConfigEdit
from agentctx.errors import ConfigInvalid

PATH = Path("/home/ann/.x/settings.json")
SERVER = ConfigEdit("member", ("mcpServers", "agentctx"), {"command": "/x/agentctx", "args": ["mcp"]})
OURS = ConfigEdit("file", (), "ours\n")


def test_connecting_twice_is_no_change_with_a_ledger_or_without() -> None:
    first = connected(PATH, "cursor", b"{}", None, [SERVER])
    assert first is not None
    assert connected(PATH, "cursor", first.after, first.written, [SERVER]) is None
    assert connected(PATH, "cursor", first.after, None, [SERVER]) is None


def test_a_file_that_was_deleted_meanwhile_stays_deleted() -> None:
    first = connected(PATH, "cursor", b"{}", None, [SERVER])
    assert first is not None
    assert first.written is not None
    assert disconnected(PATH, None, first.written).after is None


def test_a_file_of_ours_that_was_edited_is_not_removed() -> None:
    first = connected(PATH, "copilot", None, None, [OURS])
    assert first is not None
    assert first.written is not None
    assert disconnected(PATH, b"ours\n", first.written).after is None
    with pytest.raises(ConfigInvalid, match="was edited since"):
        disconnected(PATH, b"theirs\n", first.written)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match="not UTF-8"):
        connected(PATH, "cursor", b"\xff\xfe", None, [SERVER])
