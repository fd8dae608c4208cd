"""Runs inside the sandbox: attempts what the daemon must not be able to do, and prints the results as JSON.

System calls are made with meaningless arguments, so that an allowed one fails with another errno.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ARCHITECTURES = ("x86_64", "aarch64")
NUMBERS = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "init_module": (175, 105),
    "kexec_load": (246, 104),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "chroot": (161, 51),
    "reboot": (169, 142),
    "kcmp": (312, 272),
    "setuid": (105, 146),
    "clone3": (435, 435),
}
"""The number of each system call, by architecture."""


def call(number: int) -> str:
    """Return the errno of a system call whose arguments are all -1."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *[ctypes.c_long(-1)] * 6)
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def attempt(action: Callable[[], object]) -> str:
    """Return the errno of an action, or `done`."""
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def writable_and_executable() -> None:
    mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def clone_with_a_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    child = libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError(ctypes.get_errno(), "clone")
    os.waitpid(child, 0)


def opened(family: str) -> None:
    socket.socket(getattr(socket, family)).close()


def main(folder: Path) -> None:
    """Attempt everything. The folder is the writable one."""
    architecture = ARCHITECTURES.index(platform.machine())
    found = {name: call(numbers[architecture]) for name, numbers in NUMBERS.items()}
    for family in ("AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
        found[family] = attempt(partial(opened, family))
    found["writable and executable memory"] = attempt(writable_and_executable)
    found["clone with a namespace"] = attempt(clone_with_a_namespace)
    places = {"state": folder, "the program": Path(__file__).parent}
    places |= {name: Path(name) for name in ("/tmp", "/usr", "/etc", "/")}
    for name, place in places.items():
        found[f"write {name}"] = attempt((place / "probe").touch)
    found["setuid file"] = attempt(partial((folder / "probe").chmod, 0o4700))
    found["list /home"] = attempt(partial(os.listdir, "/home"))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
