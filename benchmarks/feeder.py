"""A client that keeps a daemon's embedder busy until it is killed: `python -m benchmarks.feeder SOCKET`.

It saves only as fast as texts are embedded, so the backlog stays constant and the database hardly grows. A
line on stdout reports that the backlog exists.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from agentctx.client.sync_client import Client
from benchmarks.texts import TextSource

BACKLOG = 64
_STEP = 8
_NAP_S = 0.02
_TEXT_CHARACTERS = 1_000


def main() -> None:
    texts = TextSource(seed=6)
    announced = False
    with Client(Path(sys.argv[1])) as client:
        while True:
            if client.queue().pending < BACKLOG:
                for _ in range(_STEP):
                    client.save_observation("feeder", texts.text(_TEXT_CHARACTERS))
                continue
            if not announced:
                print("busy", flush=True)
                announced = True
            time.sleep(_NAP_S)


if __name__ == "__main__":
    main()
