"""One check of names for saves, questions, lists, exports and the command line, with a real daemon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctx.client.sync_client import Client
from agentctx.errors import InvalidInput
from tests.agents.conftest import WITHOUT_MODEL
from tests.end_to_end.daemon_process import DaemonProcess
from tests.forked_process import run_forked

pytestmark = pytest.mark.process
NFC, NFD = "caf\u00e9 hours", "cafe\u0301\u00a0hours\u200b "
EMPTY = r"is empty|line break"
BAD = ("my team", "", "-team", "größe", "a" * 129, "team\n")
REQUESTS: dict[str, Callable[[Client, str], object]] = {
    "save": lambda client, name: client.save_knowledge("k", "text", namespace=name),
    "search": lambda client, name: client.search("text", namespace=name),
    "context": lambda client, name: client.context("text", namespaces=["default", name]),
    "list": lambda client, name: client.list(namespace=name),
    "export": lambda client, name: client.export(namespaces=[name]),
    "revoke": lambda client, name: client.revoke(namespace=name, agent="a", dry_run=True),
}
COMMANDS = (
    "save knowledge --key k text",
    "search text",
    "context text",
    "list",
    "get k",
    "history k",
    "edit k --content c",
    "forget k --yes",
    "export -",
    "revoke --agent a --yes",
    "undo --since 1h --yes",
    "why-not k --query q",
    "ingest .",
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path_factory.mktemp("names"), config=WITHOUT_MODEL).start()
    yield running
    running.end()


def test_questions_and_saves_refuse_the_same_namespaces(daemon: DaemonProcess) -> None:
    with daemon.client() as client:
        answers = set()
        for name in BAD:
            for request in REQUESTS.values():
                with pytest.raises(InvalidInput) as refused:
                    request(client, name)
                answers.add(refused.value.hint)
    # What destroys says of an empty criterion that it may be left out.
    assert len(answers) == 2
    assert any(hint.startswith("Leave it out") for hint in answers)


@pytest.mark.parametrize("given", ["option", "variable", "file"])
def test_the_command_line_says_so_in_one_way(daemon: DaemonProcess, tmp_path: Path, given: str) -> None:
    if given == "file":
        (tmp_path / ".agentctx.toml").write_text('namespace = "my team"\n')
    named = "my team" if given == "variable" else ""
    env = {**os.environ, "AGENTCTX_SOCKET": str(daemon.socket), "AGENTCTX_NAMESPACE": named}
    wrong = {}
    for command in COMMANDS if given == "option" else COMMANDS[:4]:
        extra = ["--namespace", "my team"] if given == "option" else []
        done = run_forked([*command.split(), *extra], env, tmp_path)
        lines = done.stderr.splitlines()
        expected = (1, "invalid namespace") if given == "file" else (2, "'my team' is not valid")
        if done.returncode != expected[0] or expected[1] not in lines[0] or "up to 128" not in lines[1]:
            wrong[command] = (done.returncode, done.stderr)
    assert wrong == {}


def test_a_namespace_can_be_named_as_it_is_shown(daemon: DaemonProcess) -> None:
    stored, shown = "dir-x:/home/ann/my@20shop", "dir:/home/ann/my shop"
    env = {**os.environ, "AGENTCTX_SOCKET": str(daemon.socket)}

    def agentctx(*args: str) -> str:
        done = run_forked([*args, "--namespace", shown], env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    agentctx("save", "knowledge", "--key", "hours", "Open from nine.")
    assert f"namespace   {shown}\n" in agentctx("get", "hours")
    assert f'"namespace": "{stored}"' in agentctx("get", "hours", "--json")


def test_keys_tags_sessions_and_agents_that_look_alike_are_one(daemon: DaemonProcess) -> None:
    with daemon.client() as client:
        first = client.save_knowledge(NFD, "Open from nine.", tags=[NFD, NFC], agent=NFD)
        again = client.save_knowledge(NFC, "Open from ten.", tags=[NFC], agent=NFC)
        assert (first.id, 2) == (again.id, again.version)
        for name in NFC, NFD:
            (found,) = client.list(key=name, tags=[name], agent=name).entries
            assert (found.key, found.attributes["tags"], found.agent) == (NFC, [NFC], NFC)
            assert [hit.id for hit in client.search("ten", tags=[name], agent=name).results] == [first.id]
        noted = client.save_observation(NFD, "It rained because of the wind.")
        assert client.get(noted.id).session == NFC
        assert [each.id for each in client.list(session=NFD, collections=["observation"]).entries] == [
            noted.id
        ]
        assert client.revoke(agent=NFD, dry_run=True).entries == 1


@pytest.mark.parametrize("name", ["\u200b", " ", "\u00ad\u2060", "a\u2028b", "a\nb"])
def test_a_name_without_anything_visible_is_refused(daemon: DaemonProcess, name: str) -> None:
    with daemon.client() as client:
        with pytest.raises(InvalidInput, match=EMPTY):
            client.save_knowledge(name, "text")
        with pytest.raises(InvalidInput, match=EMPTY):
            client.save_knowledge("k", "text", tags=[name])
        with pytest.raises(InvalidInput, match=EMPTY):
            client.save_observation(name, "text")


def test_files_whose_names_look_alike_are_two(daemon: DaemonProcess, tmp_path: Path) -> None:
    for number, name in enumerate((NFC, NFD)):
        (tmp_path / f"{name}.md").write_text(f"Zebra number {number}.\n")
    command = ["--socket", str(daemon.socket), "ingest", str(tmp_path), "--namespace", "files", "--json"]
    for _ in range(2):
        assert run_forked(command).returncode == 0
    with daemon.client() as client:
        entries = client.list(namespace="files").entries
        keys = {str(tmp_path / f"{name}.md") for name in (NFC, NFD)}
        assert {(each.version, each.key) for each in entries} == {(1, key) for key in keys}
        for entry in entries:
            assert [each.id for each in client.list(namespace="files", key=entry.key).entries] == [entry.id]
