from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_SAY = """
import ctypes, resource
from agentctx.service.process_memory import keep_private
keep_private()
print(resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""

_FREED = """
import ctypes, sys
from pathlib import Path
from agentctx.service.process_memory import return_freed_memory
MIB = 2**20
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def own_mib():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].removesuffix("kB")) / 1024

def use():
    blocks = []
    for _ in range(40):
        blocks.append(libc.malloc(MIB))
        libc.memset(blocks[-1], 1, MIB)
        libc.memset(libc.malloc(4096), 1, 4096)  # stays in use, behind each block
    for block in blocks:
        libc.free(block)

if sys.argv[1] == "returned":
    return_freed_memory()
before = own_mib()
use()
use()
print(own_mib() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_returned_to_the_system() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}

    def left_mib(how: str) -> float:
        command = [sys.executable, "-c", _FREED, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return float(done.stdout)

    assert left_mib("kept") > 30, "otherwise this test shows nothing"
    assert left_mib("returned") < 5


def test_the_daemon_leaves_no_core_file_and_cannot_be_looked_into() -> None:
    done = subprocess.run([sys.executable, "-c", _SAY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0"]
