"""Standard streams for a command that was started without them (`<&-`, `>&-`, `2>&-`)."""

from __future__ import annotations

import os
import sys


def replace_closed_streams() -> None:
    """Give each missing standard stream one that fails when it is used, and stderr one that forgets.

    Python has None there, which no code expects. A descriptor opened the wrong way round makes the system
    answer as for a closed one, and keeps files that are opened later from taking the number.
    """
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a descriptor, open to the end
