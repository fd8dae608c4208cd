"""No saved or asked secret appears in any file, provider call or log line."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctx import Client
from agentctx.errors import AgentctxError, RedactionTimedOut, SecretRefused
from agentctx.wire import SaveRequest
from agentctx_testing.fake_provider.serving import running
from tests.end_to_end.daemon_process import DaemonProcess
from tests.live_files import contents
from tests.text.redaction.corpus import ANYWHERE, KINDS, PlantedSecret, planted

CANARIES = {kind: planted(kind, random.Random(f"canary {kind}")) for kind in KINDS}
WITHOUT_PROVIDER = '[embedding]\nprovider = "none"\n'


def config(base_url: str) -> str:
    return f"""
[embedding]
provider = "openai-compatible"
base_url = "{base_url}"
model = "words"
[injection]
store_prompts = true
[log]
level = "debug"
"""


def name_of(canary: PlantedSecret) -> str:
    """Return the line on which a name fits."""
    flat = " ".join(canary.line.split())
    return flat if len(flat) <= 200 else "a name"


def requests(kind: str, canary: PlantedSecret) -> list[SaveRequest]:
    """A canary in every field that takes a text."""
    line, secret = canary
    flat, short = " ".join(line.split()), name_of(canary)
    # Some secrets are only recognised in their context.
    tag = [secret] if kind in ANYWHERE and len(secret) <= 64 else []
    return [
        SaveRequest(
            collection="knowledge", key=f"{kind} {short}", content=line, tags=tag, source=flat[:2_000]
        ),
        SaveRequest(collection="observation", content=f"We saw:\n{line}", session=short, agent=short),
        SaveRequest(collection="reflection", content=flat, session="s", origin="tool"),
        SaveRequest(
            collection="learning", trigger=f"{kind} {line}", error_pattern=line, diagnosis=flat, fix=line
        ),
    ]


def use(client: Client) -> dict[str, set[str]]:
    """Save, edit and ask with every canary, and make a backup; return the kinds reported for each."""
    reported: dict[str, set[str]] = {}
    for kind, canary in CANARIES.items():
        results = client.save_many(requests(kind, canary))
        saved = [result for result in results if not isinstance(result, AgentctxError)]
        assert len(saved) == len(results), results
        reported[kind] = {each for result in saved for each in result.redacted}
        client.edit(saved[0].id, content=f"Now it is {canary.line}")
        client.context(canary.line, position="tail", session=name_of(canary))
    client.drain()
    client.backup()
    return reported


def pieces(canary: PlantedSecret) -> list[bytes]:
    """The bytes that must not appear anywhere: the secret, line by line."""
    lines = [line for line in canary.secret.replace("\\n", "\n").splitlines() if not line.startswith("-----")]
    return [line.encode() for line in lines if len(line) >= 8]


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: content for path, content in contents(folder)}


def read_with_wal(folder: Path) -> dict[str, bytes]:
    """Read while the daemon runs, which briefly closes the database and then removes the WAL."""
    looked = threading.Event()
    for _ in range(1_000):
        files = read_all(folder)
        if any(name.endswith("-wal") for name in files):
            return files
        looked.wait(0.01)
    raise AssertionError("there never was a WAL")


def found_in(data: bytes) -> list[str]:
    return [kind for kind, canary in CANARIES.items() if any(piece in data for piece in pieces(canary))]


async def test_no_canary_appears_anywhere(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    async with running() as provider:
        daemon = make_daemon(config=config(provider.base_url("openai-compatible")))
        await asyncio.to_thread(daemon.start)
        with daemon.client() as client:
            reported = await asyncio.to_thread(use, client)
        files = await asyncio.to_thread(read_with_wal, tmp_path)
        await asyncio.to_thread(daemon.stop)
        asked = b"".join(seen.body for seen in provider.requests)
    files |= {f"{name} after": data for name, data in read_all(tmp_path).items()}
    assert {kind: kind in kinds for kind, kinds in reported.items()} == dict.fromkeys(CANARIES, True)
    assert b"[redacted:" in asked
    assert any(b"[redacted:" in data for name, data in files.items() if name.endswith((".db", ".db after")))
    assert {name: kinds for name, data in files.items() if (kinds := found_in(data))} == {}
    assert found_in(asked) == []
    assert found_in(repr(daemon.log).encode()) == []


def test_reject_saves_nothing_and_does_not_quote_the_secret(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(config=f'{WITHOUT_PROVIDER}[redaction]\nmode = "reject"\n').start()
    canary = CANARIES["github-token"]
    with daemon.client() as client:
        with pytest.raises(SecretRefused, match="github-token in content at") as refused:
            client.save_knowledge("k", canary.line)
        assert canary.secret not in refused.value.message + refused.value.hint
        assert client.list().entries == []


def test_custom_and_disabled_rules(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    own = """[acme-token]\ndescription = "ours"\nkeywords = ["acme_"]\nregex = 'acme_[a-z0-9]{16}'\n"""
    rules.write_text(own, encoding="utf-8")
    section = f'[redaction]\nrules_file = "{rules}"\ndisabled = ["github-token"]\n'
    daemon = make_daemon(config=WITHOUT_PROVIDER + section).start()
    kept = f"ghp_{'a1B2' * 9}"
    with daemon.client() as client:
        saved = client.save_knowledge("k", f"acme_0123456789abcdef and {kept}")
        assert saved.redacted == ["acme-token"]
        assert client.get(saved.id).content == f"[redacted:acme-token] and {kept}"


def test_a_save_is_refused_if_a_custom_rule_times_out(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    own = """[acme-secret]\ndescription = "ours"\nkeywords = ["_secret"]\nregex = '[a-z]+_secret'\n"""
    rules.write_text(own, encoding="utf-8")
    daemon = make_daemon(config=f'{WITHOUT_PROVIDER}[redaction]\nrules_file = "{rules}"\n').start()
    with daemon.client() as client:
        with pytest.raises(RedactionTimedOut, match="rule acme-secret takes longer"):
            client.save_knowledge("k", "a" * 200_000 + "1_secret")
        assert client.list().entries == []
        assert client.save_knowledge("k", "my_secret").redacted == ["acme-secret"]


def test_a_rule_that_never_finishes_prevents_the_start(
    make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[slow]\ndescription = ''\nkeywords = []\nregex = '(x+)+y'\n", encoding="utf-8")
    daemon = make_daemon(config=f'{WITHOUT_PROVIDER}[redaction]\nrules_file = "{rules}"\n')
    assert daemon.run_to_exit() == 78
    assert "slow: the regex takes longer than" in repr(daemon.log)


def test_invalid_rules_prevent_the_start(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon(config=f'{WITHOUT_PROVIDER}[redaction]\ndisabled = ["nonsense"]\n')
    assert daemon.run_to_exit() == 78
    assert "'nonsense'" in repr(daemon.log)
