"""Notes about turns that could not be saved when they ended, so that a later event saves them.

A client may report the end of a turn before its transcript contains it, or the daemon may be down. A note
names the turn and the transcript, but contains none of their text.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Self

from agentctx.config.paths import state_dir

MAX_AGE_S: Final = 12 * 3_600.0
"""Older notes are dropped; well within the 24 h for which the daemon keeps an Idempotency-Key by default."""


class MissedTurn(NamedTuple):
    """A note. `name` identifies the turn in the transcript and in events."""

    client: str
    session: str
    name: str
    transcript: str
    namespace: str


class MissedTurns(NamedTuple):
    """The notes in a folder, one file per turn, named after its session."""

    folder: Path

    @classmethod
    def of_user(cls, env: Mapping[str, str] = os.environ) -> Self:
        return cls(state_dir(env) / "missed-turns")

    def add(self, missed: MissedTurn) -> None:
        """Note a turn, and drop old notes. Raises `OSError`."""
        self._prepare()
        path = self._path(missed)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(missed), encoding="utf-8")
        draft.replace(path)

    def note_shown(self, what: str, client: str, session: str) -> bool:
        """Return whether a session shows `what` for the first time. Raises `OSError`."""
        self._prepare()
        try:
            (self.folder / f"{_digest(client, session)}.{what}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def of_session(self, client: str, session: str) -> list[MissedTurn]:
        """Return the turns noted for a session, oldest note first."""
        paths = sorted(self.folder.glob(f"{_digest(client, session)}-*.json"), key=_noted_at)
        return [missed for path in paths if (missed := _read(path)) is not None]

    def drop(self, missed: MissedTurn) -> None:
        self._path(missed).unlink(missing_ok=True)

    def _path(self, missed: MissedTurn) -> Path:
        return self.folder / f"{_digest(missed.client, missed.session)}-{_digest(missed.name)}.json"

    def _prepare(self) -> None:
        """Create the folder, and drop old notes."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = time.time() - MAX_AGE_S
        for path in self.folder.iterdir():
            # What is said once a day must be known for that long.
            if _noted_at(path) < (before - MAX_AGE_S if path.suffix == ".waiting" else before):
                path.unlink(missing_ok=True)


def _digest(*names: str) -> str:
    return sha256("\0".join(names).encode(errors="replace")).hexdigest()[:24]


def _noted_at(path: Path) -> float:
    with suppress(FileNotFoundError):  # dropped by another hook
        return path.stat().st_mtime
    return 0.0


def _read(path: Path) -> MissedTurn | None:
    """Read a note; None if another hook has dropped it, it is too old, or it is not a note."""
    try:
        missed = MissedTurn(*json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return missed if time.time() - _noted_at(path) < MAX_AGE_S else None
