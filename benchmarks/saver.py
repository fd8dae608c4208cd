"""`python -m benchmarks.saver SOCKET COUNT`: save this many texts with one `save_all`, in its own process.

Prints as JSON the seconds it took, by how many megabytes the process grew compared with a `save_all` of one
text, and how many saves failed.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from agentctx.client.sync_client import Client
from agentctx.errors import AgentctxError
from agentctx.wire import SaveRequest

_WORDS = ("the", "deploy", "window", "closes", "on", "Friday", "and", "nobody", "restarts", "queues", "then")
_WORDS_A_TEXT = 85
_TEXTS = 200
"""Distinct texts, cheap to make: the benchmark measures saving."""
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Save them and print the result."""

    seconds: float
    grown_mb: float
    failed: int


def main() -> None:
    with Client(Path(sys.argv[1])) as client:
        _save(client, "warm-up", 1)
        before = _peak_bytes()
        started = perf_counter()
        failed = _save(client, "bench", int(sys.argv[2]))
        seconds = perf_counter() - started
    print(json.dumps(asdict(Report(seconds=seconds, grown_mb=(_peak_bytes() - before) / 1e6, failed=failed))))


def _save(client: Client, session: str, count: int) -> int:
    """Return the number of failures."""
    return sum(isinstance(outcome, AgentctxError) for outcome in client.save_all(_requests(session, count)))


def _requests(session: str, count: int) -> Iterator[SaveRequest]:
    # `TextSource` reads a vocabulary first, whose memory would hide that of the client.
    source = random.Random(11)
    texts = [" ".join(source.choices(_WORDS, k=_WORDS_A_TEXT)) for _ in range(_TEXTS)]
    for number in range(count):
        content = f"{number}: {texts[number % _TEXTS]}"
        yield SaveRequest(collection="observation", session=session, content=content)


def _peak_bytes() -> int:
    """Return the peak memory of this process. On Linux `getrusage` would include that of its parent."""
    if _STATUS.exists():
        [line] = [line for line in _STATUS.read_text("ascii").splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
