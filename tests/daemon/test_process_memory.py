from __future__ import annotations

import subprocess
import sys

_SAY = """
import ctypes, resource
from agentctx.daemon.process_memory import keep_private
keep_private()
print(resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


def test_the_daemon_leaves_no_core_file_and_cannot_be_looked_into() -> None:
    done = subprocess.run([sys.executable, "-c", _SAY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0"]
