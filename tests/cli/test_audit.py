"""`agentctx audit list` on terminals of different width."""

from __future__ import annotations

from agentctx.cli.audit import event_lines
from agentctx.wire import AuditEvent
from tests.client.stub_daemon import ID

AT = "2026-11-21T10:00:00.000Z"
SAVED = AuditEvent(
    seq=123_456,
    at=AT,
    kind="save",
    principal=1000,
    namespace="dir-x:/home/ann/my@20shop",
    subject=ID,
    detail={"collection": "knowledge", "version": 1, "change": "created", "content": "ab" * 16},
    hash="00",
)
SEARCHED = AuditEvent(
    seq=7, at=AT, kind="undo_revocation", principal=None, namespace=None, subject=None, detail={}, hash="01"
)


def test_a_row_takes_two_lines_of_a_standard_terminal() -> None:
    assert event_lines([SAVED, SEARCHED], 80) == [
        "   ROW  TIME                      KIND             UID     NAMESPACE",
        f"123456  {AT}  save             1000    dir:/home/ann/my shop",
        f"    {ID}  collection=knowledge version=1 change…",
        f"     7  {AT}  undo_revocation  daemon  -",
        "    -",
    ]


def test_a_row_takes_one_line_where_it_fits_and_in_a_pipe() -> None:
    for limit in (None, 250):
        header, row = event_lines([SAVED], limit)
        assert header.split() == ["ROW", "TIME", "KIND", "UID", "NAMESPACE", "SUBJECT", "DETAIL"]
        assert row.endswith(f"{ID}  collection=knowledge version=1 change=created content={'ab' * 16}")
