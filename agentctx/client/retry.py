"""When a failed call is tried again, and after what pause. No I/O, no clock: the clients act on it.

| what failed                                   | which calls    | how long                                |
|-----------------------------------------------|----------------|-----------------------------------------|
|| no listener, or no room: nothing was sent     || all            | `start_timeout_s` from the first
failure |
| the daemon says it is starting or stopping    | repeatable     | the same                                |
| the connection dropped without a reply        | repeatable     | `MAX_REPEATS` times                     |

Everything else is for the caller, and so is every failure of a probe but a dropped connection.
"""

from __future__ import annotations

from agentctx.client.transport import BacklogFull, ConnectionDropped, NotListening
from agentctx.errors import AgentctxError, StorageClosed, Unavailable

START_TIMEOUT_S = 5.0
"""How long a client waits for a daemon to start by default."""
MAX_REPEATS = 3
_REPEAT_PAUSES_S = (0.0, 0.05, 0.2)
"""Before each repeat: the first finds a daemon that had only closed this connection."""
_FIRST_POLL_S = 0.01
_LONGEST_POLL_S = 0.25


class Attempts:
    """The tries of one call."""

    def __init__(self, *, repeatable: bool, is_probe: bool, start_timeout_s: float) -> None:
        self._repeatable = repeatable
        self._start_timeout_s = 0.0 if is_probe else start_timeout_s
        self._repeats = 0
        self._polls = 0
        self._failed_at: float | None = None

    def pause_after(self, error: AgentctxError, now: float) -> float | None:
        """Seconds to wait before the next try; None: give up. `now` is on any clock that never goes back."""
        if self._failed_at is None:
            self._failed_at = now
        if isinstance(error, ConnectionDropped):
            return self._repeat_pause_s() if self._repeatable else None
        if _was_not_sent(error) or (self._repeatable and _is_passing(error)):
            return self._poll_pause_s(self._failed_at + self._start_timeout_s - now)
        return None

    def _repeat_pause_s(self) -> float | None:
        if self._repeats == MAX_REPEATS:
            return None
        pause_s = _REPEAT_PAUSES_S[self._repeats]
        self._repeats += 1
        return pause_s

    def _poll_pause_s(self, left_s: float) -> float | None:
        if left_s <= 0:
            return None
        pause_s = min(_FIRST_POLL_S * 2.0**self._polls, _LONGEST_POLL_S)
        self._polls = min(self._polls + 1, 10)
        return min(pause_s, left_s)


def _was_not_sent(error: AgentctxError) -> bool:
    return isinstance(error, NotListening | BacklogFull)


def _is_passing(error: AgentctxError) -> bool:
    return isinstance(error, Unavailable | StorageClosed)
