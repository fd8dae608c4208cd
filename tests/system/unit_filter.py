"""The system calls that a systemd unit allows, as seccomp filters for bwrap or for a process itself.

`systemd-analyze` lists the sets of system calls, libseccomp compiles rules to BPF. The rules for arguments
are those that systemd.exec(5) describes for the options in the unit.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_NOT_EQUAL: Final = 1
_LESS: Final = 2
_EQUAL: Final = 4
_GREATER: Final = 6
_MASKED_EQUAL: Final = 7
_OTHER_ARCHITECTURE: Final = 2
"""The attribute SCMP_FLTATR_ACT_BADARCH."""
_PROT_WRITE, _PROT_EXEC, _SHM_EXEC = 2, 4, 0o100000
_NEW_NAMESPACES: Final = (
    0x00000080,
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_FAMILIES: Final = {"AF_UNIX": socket.AF_UNIX, "AF_INET": socket.AF_INET, "AF_INET6": socket.AF_INET6}

Options = Mapping[str, Sequence[str]]
"""All values of each option of a unit, in order."""


class Compare(ctypes.Structure):
    """An argument and the value to compare it with: `struct scmp_arg_cmp`."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """The action for a call whose arguments all match. `compares` are (argument, operator, a, b)."""

    call: str
    action: int
    compares: tuple[tuple[int, int, int, int], ...] = ()


def options(unit: str) -> dict[str, list[str]]:
    """Return all values of each option. An empty value resets the earlier ones, as in systemd."""
    found: dict[str, list[str]] = {}
    for line in unit.splitlines():
        if "=" not in line or line.startswith("#"):
            continue
        name, value = line.split("=", 1)
        found[name] = [*found.get(name, []), value] if value else []
    return found


def refuse(number: int) -> int:
    """Return the action that fails with this errno."""
    return _ERRNO | number


def allowed(unit: Options) -> set[str]:
    """Return all system calls of `SystemCallFilter=`, which must begin with an allow list."""
    names: set[str] = set()
    for value in unit["SystemCallFilter"]:
        listed = {name for word in value.removeprefix("~").split() for name in _members(word)}
        names = names - listed if value.startswith("~") else names | listed
    return names


def by_arguments(unit: Options) -> Iterator[Rule]:
    """Return the rules that the other options add."""
    yield from _families(unit["RestrictAddressFamilies"])
    if unit["MemoryDenyWriteExecute"] == ["yes"]:
        yield from _no_new_code()
    if unit["RestrictNamespaces"] == ["yes"]:
        yield Rule("clone3", refuse(errno.ENOSYS))
        for flag in _NEW_NAMESPACES:
            yield Rule("clone", refuse(errno.EPERM), ((0, _MASKED_EQUAL, flag, flag),))
    if unit["RestrictSUIDSGID"] == ["yes"]:
        yield from _no_setuid_files()
    if unit["LockPersonality"] == ["yes"]:
        yield Rule("personality", refuse(errno.EPERM), ((0, _NOT_EQUAL, 0, 0),))


def compiled(rules: Iterator[Rule] | Sequence[Rule], *, otherwise: int) -> bytes:
    """Return the BPF of these rules for this architecture; calls of other ones fail with EPERM.

    Raises:
        OSError: libseccomp is missing or rejects a rule.
    """
    library = _libseccomp()
    context = library.seccomp_init(otherwise)
    try:
        _check(library.seccomp_attr_set(context, _OTHER_ARCHITECTURE, refuse(errno.EPERM)), "architecture")
        for rule in rules:
            number = library.seccomp_syscall_resolve_name(rule.call.encode())
            if number >= 0:  # the other calls do not exist on this architecture
                compares = (Compare * len(rule.compares))(*(Compare(*each) for each in rule.compares))
                added = library.seccomp_rule_add_array(
                    context, rule.action, number, len(rule.compares), compares
                )
                _check(added, rule.call)
        file = os.memfd_create("filter")
        try:
            _check(library.seccomp_export_bpf(context, file), "export")
            return os.pread(file, os.fstat(file).st_size, 0)
        finally:
            os.close(file)
    finally:
        library.seccomp_release(context)


def filters(unit: Options) -> tuple[bytes, bytes]:
    """Return two filters, by name and by arguments; the stricter result applies."""
    names = [Rule(name, ALLOW) for name in sorted(allowed(unit))]
    refusal = refuse(getattr(errno, unit["SystemCallErrorNumber"][-1]))
    return compiled(names, otherwise=refusal), compiled(by_arguments(unit), otherwise=ALLOW)


def _families(values: Sequence[str]) -> Iterator[Rule]:
    words = [word for value in values for word in value.split()]
    # "none" resets what was allowed before.
    last = max((at for at, word in enumerate(words) if word == "none"), default=-1)
    wanted = sorted(_FAMILIES[word] for word in words[last + 1 :])
    refusal = refuse(errno.EAFNOSUPPORT)
    if not wanted:
        yield Rule("socket", refusal)
        return
    yield Rule("socket", refusal, ((0, _LESS, wanted[0], 0),))
    yield Rule("socket", refusal, ((0, _GREATER, wanted[-1], 0),))
    for family in set(range(wanted[0], wanted[-1])) - set(wanted):
        yield Rule("socket", refusal, ((0, _EQUAL, family, 0),))


def _no_new_code() -> Iterator[Rule]:
    both = _PROT_WRITE | _PROT_EXEC
    refusal = refuse(errno.EPERM)
    yield Rule("mmap", refusal, ((2, _MASKED_EQUAL, both, both),))
    yield Rule("mprotect", refusal, ((2, _MASKED_EQUAL, _PROT_EXEC, _PROT_EXEC),))
    yield Rule("pkey_mprotect", refusal, ((2, _MASKED_EQUAL, _PROT_EXEC, _PROT_EXEC),))
    yield Rule("shmat", refusal, ((2, _MASKED_EQUAL, _SHM_EXEC, _SHM_EXEC),))


def _no_setuid_files() -> Iterator[Rule]:
    refusal = refuse(errno.EPERM)
    modes = {
        "chmod": 1,
        "fchmod": 1,
        "fchmodat": 2,
        "mkdir": 1,
        "mkdirat": 2,
        "mknod": 1,
        "mknodat": 2,
        "creat": 1,
    }
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for call, argument in modes.items():
            yield Rule(call, refusal, ((argument, _MASKED_EQUAL, bit, bit),))
        for call, argument in {"open": 1, "openat": 2}.items():
            created = (argument, _MASKED_EQUAL, os.O_CREAT, os.O_CREAT)
            yield Rule(call, refusal, (created, (argument + 1, _MASKED_EQUAL, bit, bit)))
    yield Rule("openat2", refuse(errno.ENOSYS))


@cache
def _members(word: str) -> frozenset[str]:
    """Return one system call, or all of a set like `@system-service`."""
    if not word.startswith("@"):
        return frozenset([word])
    command = ["systemd-analyze", "syscall-filter", word]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = (line.strip() for line in output.splitlines()[1:])
    return frozenset().union(*(_members(line) for line in lines if line and not line.startswith("#")))


@cache
def _libseccomp() -> Any:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_rule_add_array.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint),
        ctypes.POINTER(Compare),
    ]
    return library


def _check(result: int, about: str) -> None:
    if result < 0:
        raise OSError(-result, os.strerror(-result), about)
