"""How long a group of writes waits for company before it is committed."""

from __future__ import annotations

from typing import Final

MAX_GROUP: Final = 256
"""Most functions of one commit."""
GROUP_GAP_S: Final = 0.003
"""A group is closed when no caller came for this long: a server needs about 0.5 ms from one to the next."""
GROUP_WAIT_S: Final = 0.012
"""A group is closed this long after its first caller, even if more may come."""


class GroupWindow:
    """Decides how long a group stays open. Times are seconds of whatever clock the caller has.

    As many callers are expected as took part around the last commit. A caller who is alone is not delayed;
    when the others stop coming, that costs one gap, once.
    """

    def __init__(self) -> None:
        self.expected = 1

    def closes_at(self, *, waiting: int, first: float, last: float) -> float:
        """When to commit, if `waiting` callers are here, who came from `first` to `last`."""
        if waiting >= self.expected:
            return last
        return min(first + GROUP_WAIT_S, last + GROUP_GAP_S)

    def committed(self, *, members: int, arrived: int) -> None:
        """Learn from a commit of `members` callers, while which `arrived` others came."""
        seen = min(members + arrived, MAX_GROUP)
        if seen == 1 or seen >= self.expected:
            self.expected = seen
        else:
            self.expected = (self.expected + seen) // 2
