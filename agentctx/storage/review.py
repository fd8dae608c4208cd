"""Steps of the review: which captures wait, what ends their waiting, and when they expire.

What waits is in quarantine for that reason (`quarantine.waiting`), and so in no index and no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from agentctx.storage import forgetting
from agentctx.storage.quarantine import IS_QUARANTINED, WAITS
from agentctx.storage.records import Draft
from agentctx.storage.steps import Execute, LockEntries, Rows, Steps
from agentctx.wire import CaptureMode, RememberMode

_MODE: Final = "SELECT mode FROM capture_modes WHERE namespace = ? AND agent = ?"
_SET: Final = """INSERT INTO capture_modes (namespace, agent, mode, since) VALUES (?, ?, ?, ?)
    ON CONFLICT (namespace, agent) DO UPDATE SET mode = excluded.mode, since = excluded.since"""
SET_MODE: Final = "UPDATE capture_modes SET mode = ?, since = ? WHERE namespace = ? AND agent = ?"
_ALWAYS: Final = """INSERT INTO capture_modes (namespace, agent, mode, since)
    SELECT e.namespace, e.agent, 'always', ? FROM entries e WHERE e.id = ? AND e.live
    ON CONFLICT (namespace, agent) DO UPDATE SET mode = excluded.mode, since = excluded.since"""
# Another reason still keeps it out of the answers.
_KEEP: Final = f"""UPDATE quarantine SET
      waiting = CASE WHEN outdated OR {IS_QUARANTINED} THEN NULL ELSE waiting END,
      state = CASE WHEN outdated OR {IS_QUARANTINED} THEN state ELSE 'returning' END
    WHERE entry = ? AND {WAITS} AND EXISTS (
      SELECT 1 FROM entries e WHERE e.id = quarantine.entry AND e.live AND e.version = ?)"""  # noqa: S608 - constant
_WAITING: Final = f"SELECT 1 FROM quarantine WHERE entry = ? AND {WAITS}"  # noqa: S608 - constant
_COUNTS: Final = f"""SELECT e.namespace, e.agent, count(*), min(quarantine.waiting) FROM quarantine
    CROSS JOIN entries e WHERE e.id = quarantine.entry AND e.live AND {WAITS}
    GROUP BY e.namespace, e.agent"""  # noqa: S608 - constant
_OVERDUE: Final = f"""SELECT e.seq, e.id, e.version, e.namespace, e.collection FROM quarantine
    CROSS JOIN entries e WHERE e.id = quarantine.entry AND e.live AND {WAITS}
      AND quarantine.waiting < ?"""  # noqa: S608 - constant


class Captures(NamedTuple):
    """What an agent's hooks capture in a namespace: its mode, None without one, and what waits.

    `oldest` is the time since when one waits, in milliseconds; None if none does.
    """

    mode: CaptureMode | None = None
    waiting: int = 0
    oldest: int | None = None


CapturesByAgent = Mapping[tuple[str, str], Captures]
"""By namespace and agent; the agent is empty for entries that name none."""


def mode_after(known: CaptureMode | None, asked: RememberMode) -> CaptureMode:
    """Return the mode after a capture: hooks may ask for a review, but never end one."""
    if known == "always":
        return known
    return "review" if "review" in (known, asked) else "auto"


def must_wait(draft: Draft, *, now: int) -> Steps[bool]:
    """Return whether a new entry waits, and note the mode of the agent that captured it."""
    if draft.remember is None or draft.origin != "capture":
        return draft.remember == "review"
    found = yield from Rows(_MODE, (draft.namespace, draft.agent))
    known = found[0][0] if found else None
    mode = mode_after(known, draft.remember)
    if mode != known:
        yield from Execute(_SET, (draft.namespace, draft.agent, mode, now))
    return mode == "review"


def is_waiting(entry_id: str) -> Steps[bool]:
    return bool((yield from Rows(_WAITING, (entry_id,))))


def keep(entry_id: str, version: int, *, always: bool, now: int) -> Steps[bool]:
    """End the waiting of an entry; False if it does not wait, or another version of it is live.

    `always`: that of later captures, too.
    """
    if not (yield from Execute(_KEEP, (entry_id, version))):
        return False
    if always:
        yield from Execute(_ALWAYS, (now, entry_id))
    return True


def captures() -> Steps[CapturesByAgent]:
    """Return the modes, and how many wait."""
    modes = yield from Rows("SELECT namespace, agent, mode FROM capture_modes")
    found = {(namespace, agent): Captures(mode) for namespace, agent, mode in modes}
    for namespace, agent, count, oldest in (yield from Rows(_COUNTS)):
        known = found.get((namespace, agent), Captures())
        found[namespace, agent] = known._replace(waiting=int(count), oldest=oldest)
    return found


def expire(*, before: int, limit: int, now: int) -> Steps[list[str]]:
    """Erase entries that have waited since before a time; return their ids."""
    found = yield from Rows(f"{_OVERDUE} ORDER BY quarantine.waiting LIMIT ?", (before, limit))
    if not found:
        return []
    ids = [row[1] for row in found]
    yield from LockEntries(ids, with_spaces=True)
    rows = yield from Rows(f"{_OVERDUE} AND e.id IN ?ids", (before, ids))
    for row in rows:
        yield from forgetting.expire(forgetting.LiveRow(*row), now)
    return [row[1] for row in rows]
