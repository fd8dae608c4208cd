"""Looks for the nearest existing folder above a file that is not there."""

from __future__ import annotations

import os

from agentctx.ingest.names import escape_path, unescape_path
from agentctx.ingest.sight import Ground


class Grounds:
    """Looks each folder up once per pass."""

    def __init__(self) -> None:
        self._known: dict[str, Ground | None] = {}

    def of(self, source: str) -> Ground | None:
        """Return the ground of a file; None if it cannot be seen."""
        return self._at(os.path.dirname(unescape_path(source)))  # noqa: PTH120 - paths are text here

    def _at(self, folder: str) -> Ground | None:
        if folder not in self._known:
            self._known[folder] = self._look(folder)
        return self._known[folder]

    def _look(self, folder: str) -> Ground | None:
        try:
            with os.scandir(folder) as listing:
                is_empty = next(listing, None) is None
            status = os.stat(folder)  # noqa: PTH116 - paths are text here
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(folder)  # noqa: PTH120 - the same
            return None if above == folder else self._at(above)
        except OSError:
            return None
        return Ground(escape_path(folder), (status.st_dev, status.st_ino), is_empty, status.st_mtime_ns)
