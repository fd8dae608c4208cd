"""Receipts of injections survive a restart of the daemon."""

from __future__ import annotations

from collections.abc import Callable

from tests.end_to_end.daemon_process import DaemonProcess


def test_a_receipt_is_on_disk_after_the_daemon_stops(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(config='[embedding]\nprovider = "none"\n').start()
    with daemon.client() as client:
        saved = client.save_knowledge("k", "deploys run from main on Mondays")
        reply = client.context("do deploys run on Mondays?", position="system")
    assert daemon.stop() == 0
    daemon.start()
    with daemon.client() as client:
        assert reply.injection_id is not None
        receipt = client.injection(reply.injection_id)
        assert [each.id for each in client.injections().injections] == [reply.injection_id]
        assert client.why_not(saved.id, "lunch").verdict == "no_match"
    assert (receipt.injected, receipt.tokens) == (1, reply.tokens)
    assert receipt.degraded is not None
