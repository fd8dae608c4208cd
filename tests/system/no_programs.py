"""Run a module that cannot start other programs: `python -m tests.system.no_programs MODULE ARGUMENT...`.

systemd and bwrap must start the daemon, so neither can block execve. This module does, in the daemon's own
process before its first line, for all its threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import runpy
import sys
from typing import Final

from tests.system.unit_filter import ALLOW, Rule, compiled, refuse

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_INSTRUCTION: Final = 8
"""Bytes of one BPF instruction."""


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def forbid_programs() -> None:
    """Make execve fail with EPERM from now on, in this process and its threads.

    Raises:
        OSError: the kernel accepts no filter.
    """
    refusal = refuse(errno.EPERM)
    bpf = compiled([Rule("execve", refusal), Rule("execveat", refusal)], otherwise=ALLOW)
    program = Program(len(bpf) // _INSTRUCTION, bpf)
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "prctl")


if __name__ == "__main__":
    forbid_programs()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
