"""The sandbox of the service's unit, made by bwrap: what it blocks, and a daemon inside it.

`sandbox.sh` runs the end-to-end tests in it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.sandbox import unit_options
from tests.system.sandboxed_daemons import Sandboxed
from tests.system.unit_filter import Rule, allowed, by_arguments, options

PROBE = Path(__file__).with_name("sandbox_probe.py")
REFUSED = (
    *(
        "execve",
        "execveat",
        "ptrace",
        "mount",
        "umount2",
        "pivot_root",
        "bpf",
        "keyctl",
        "add_key",
        "request_key",
    ),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "process_vm_readv"),
    *(
        "process_vm_writev",
        "unshare",
        "setns",
        "init_module",
        "kexec_load",
        "perf_event_open",
        "open_by_handle_at",
    ),
    *("chroot", "reboot", "kcmp", "setuid", "writable and executable memory", "clone with a namespace"),
    *("setuid file",),
)
READ_ONLY = ("write /usr", "write /etc", "write /", "write the program")


def missing() -> str | None:
    """Return what the sandbox needs but this machine lacks."""
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return "no libseccomp"
    if found := next((name for name in ("bwrap", "systemd-analyze") if shutil.which(name) is None), None):
        return f"no {found}"
    attempt = ["bwrap", *(["--unshare-user"] if os.geteuid() else []), "--ro-bind", "/", "/", "--", "true"]
    done = subprocess.run(attempt, check=False, capture_output=True, text=True)
    return f"bwrap may not: {done.stderr.strip()}" if done.returncode else None


needs_sandbox = pytest.mark.skipif(
    (reason := missing()) is not None, reason=f"NOT TESTED: the sandbox of the service, {reason}"
)


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[Callable[..., Sandboxed]]:
    made: list[Sandboxed] = []

    def make(**options: Any) -> Sandboxed:
        made.append(Sandboxed(tmp_path, **options))
        return made[-1]

    yield make
    for daemon in made:
        daemon.end()


def probed(folder: Path, *switches: str) -> dict[str, str]:
    """Return the results of the attempts inside, where no program may be started any more."""
    command = [sys.executable, "-m", "tests.system.sandbox", *switches, "--writable", str(folder), "--"]
    command += [sys.executable, "-m", "tests.system.no_programs", "tests.system.sandbox_probe", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@needs_sandbox
def test_forbidden_operations_fail(tmp_path: Path) -> None:
    found = probed(tmp_path)
    assert {name: found[name] for name in REFUSED} == dict.fromkeys(REFUSED, "EPERM")
    assert {name: found[name] for name in READ_ONLY} == dict.fromkeys(READ_ONLY, "EROFS")
    assert found["clone3"] == "ENOSYS", "the C library takes clone then, whose flags can be looked at"
    assert found["list /home"] == "ENOENT"
    families = {name: found[name] for name in found if name.startswith("AF_")}
    works = dict.fromkeys(("AF_UNIX", "AF_INET", "AF_INET6"), "done")
    assert families == works | dict.fromkeys(("AF_NETLINK", "AF_PACKET", "AF_VSOCK"), "EAFNOSUPPORT")


@needs_sandbox
def test_required_operations_work(tmp_path: Path) -> None:
    found = probed(tmp_path)
    assert (found["write state"], found["write /tmp"]) == ("done", "done")
    assert (tmp_path / "probe").exists()
    assert not Path("/tmp/probe").exists(), "its /tmp is its own"


@needs_sandbox
def test_only_unix_sockets_remain_without_the_network(tmp_path: Path) -> None:
    found = probed(tmp_path, "--no-network")
    families = {name: found[name] for name in found if name.startswith("AF_")}
    assert families.pop("AF_UNIX") == "done"
    assert set(families.values()) == {"EAFNOSUPPORT"}


@needs_sandbox
def test_the_daemon_works_in_the_sandbox(sandboxed: Callable[..., Sandboxed]) -> None:
    daemon = sandboxed().start()
    with daemon.client() as client:
        saved = client.save_knowledge(
            "tea-rule", "The kettle must be descaled every first Monday.", wait="embedded"
        )
        reply = client.search("How often do we clean the water boiler of limescale?", order="distance")
        assert (reply.degraded, reply.results[0].id) == (None, saved.id)
        assert client.status().pid == daemon.pid
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
        )
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert daemon.stop() == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="NOT TESTED: no systemd-analyze here")
def test_the_unit_excludes_system_calls_that_the_daemon_does_not_need() -> None:
    names = allowed(unit_options())
    assert {"read", "openat", "accept4", "fdatasync", "clone3", "futex"} <= names
    dangerous = {name for name in REFUSED if name.isidentifier()} - {"execve", "execveat"}
    assert not names & dangerous
    assert len(names) <= 330


def test_an_empty_value_resets_and_none_allows_no_family() -> None:
    assert options("A=1\nA=\nA=2\n# A=3\n") == {"A": ["2"]}
    yes = {name: ["yes"] for name in ("MemoryDenyWriteExecute", "RestrictNamespaces", "RestrictSUIDSGID")}
    unit = {**yes, "LockPersonality": ["yes"], "RestrictAddressFamilies": ["AF_INET", "none"]}
    assert [rule.compares for rule in by_arguments(unit) if rule.call == "socket"] == [()]
    assert any(rule == Rule("clone3", rule.action) for rule in by_arguments(unit))
