"""`agentctx namespaces`."""

from dataclasses import asdict

from agentctx.names import namespace_from
from agentctx.wire import NamespaceCount, NamespaceList
from tests.cli.conftest import Agentctx
from tests.client.stub_daemon import StubDaemon


def test_namespaces_are_shown_by_their_readable_names(agentctx: Agentctx, daemon: StubDaemon) -> None:
    home = namespace_from("dir", "/home/ann/my shop")
    counts = {"user:ann": 1_234, home: 2}
    listed = [NamespaceCount(namespace=name, entries=count) for name, count in counts.items()]
    found = NamespaceList(namespaces=listed, more=7)
    daemon.answer("GET", "/v1/namespaces", (200, found))

    assert agentctx("namespaces") == 0
    assert agentctx.out.splitlines() == [
        "ENTRIES  NAMESPACE",
        "  1,234  user:ann",
        "      2  dir:/home/ann/my shop",
    ]
    assert agentctx.err == "note: and 7 smaller ones\n"
    assert agentctx("namespaces", "--json") == 0
    assert agentctx.json == asdict(found)


def test_without_entries_it_says_how_to_save(agentctx: Agentctx, daemon: StubDaemon) -> None:
    daemon.answer("GET", "/v1/namespaces", (200, NamespaceList(namespaces=[], more=0)))
    assert agentctx("namespaces") == 0
    assert agentctx.out == ""
    assert agentctx.err.startswith("note: nothing is saved yet; `agentctx save --help`")
