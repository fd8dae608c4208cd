"""Watches folders: makes one full pass, then a pass over the changed paths after each burst of changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Event
from typing import TypeAlias

from agentctx.errors import DaemonUnreachable, DeadlineExceeded, InvalidInput, StorageFailed, Unavailable
from agentctx.extras import install_hint
from agentctx.ingest.ignore import EXCLUDE_FILE, IGNORE_FILES, REPOSITORY
from agentctx.ingest.names import escape_path, is_within
from agentctx.ingest.walk import VERSION_CONTROL, check_unchanged, folder_identity

MAX_SCOPES = 50
"""With more changed paths than this, a full pass is cheaper."""
RETRY_S = 1.0
_QUIET_MS = 200
_LONGEST_BURST_MS = 1_000
_POLL_MS = 500

_TRANSIENT_ERRORS = (DaemonUnreachable, DeadlineExceeded, StorageFailed, Unavailable)
"""Transient errors to wait out: a restart, overload, a full disk."""

Events: TypeAlias = Iterable[Collection[str]]
"""Sets of changed paths; an empty set means that nothing has changed for a while."""
PassRunner: TypeAlias = Callable[[Sequence[str] | None], None]
"""Makes one pass over the given paths, or over everything if they are None."""


class Watch:
    """Follows the events of the folders until `stop` is set or the events end."""

    def __init__(
        self, roots: Sequence[str], run_pass: PassRunner, notify: Callable[[str], None], stop: Event
    ) -> None:
        self._roots = roots
        self._run_pass = run_pass
        self._notify = notify
        self._stop = stop
        self._identities = [folder_identity(root) for root in roots]

    def run(self, events: Events) -> None:
        """Make a full pass at the first event set, then one pass after each burst of changes.

        Raises:
            InvalidInput: a folder was removed or replaced, for example by an unmount. Its entries stay.
        """
        is_first = True
        for changed in events:
            if self._stop.is_set():
                return
            check_unchanged(self._roots, self._identities)
            scopes = None if is_first else scopes_of(changed, self._roots)
            if scopes is None or scopes:
                self._run_with_retries(scopes)
            is_first = False

    def _run_with_retries(self, scopes: Sequence[str] | None) -> None:
        """Make a pass; wait out transient errors, then make a full pass to catch what was missed."""
        has_notified = False
        while not self._stop.is_set():
            try:
                self._run_pass(scopes)
            except _TRANSIENT_ERRORS as error:
                if not has_notified:
                    self._notify(f"{error.message} Waiting for it to come back.")
                has_notified, scopes = True, None
                self._stop.wait(RETRY_S)
            else:
                if has_notified:
                    self._notify("The daemon is back.")
                return


def scopes_of(changed: Collection[str], roots: Sequence[str]) -> list[str] | None:
    """Return the paths to look at after a burst of changes, or None for everything. Pure.

    A changed ignore file concerns its whole folder; changes inside a version control folder are ignored.
    """
    scopes = {
        scope
        for root in roots
        for path in changed
        if is_within(path, root) and (scope := _scope_of(path, root)) is not None
    }
    if len(scopes) > MAX_SCOPES or scopes.intersection(roots):
        return None
    return sorted(
        scope for scope in scopes if not any(other != scope and is_within(scope, other) for other in scopes)
    )


def check_roots(roots: Sequence[str]) -> None:
    """Raise `InvalidInput` if an argument is not a folder and so cannot be watched."""
    for root in roots:
        if not os.path.isdir(root):  # noqa: PTH112 - paths are text here, they may be undecodable
            raise InvalidInput(
                f"{escape_path(root)} is not a folder.",
                hint="Give the folder to watch, and select files with --include.",
            )


def file_events(roots: Sequence[str], stop: Event) -> Iterator[set[str]]:
    """Yield the file system's events in bursts. The first, empty set says that watching has started.

    Raises:
        InvalidInput: watchfiles is not installed, or the system cannot watch more folders.
    """
    try:
        from watchfiles import watch
    except ImportError:
        raise InvalidInput(
            "--watch needs the package watchfiles, which is not installed.",
            hint=install_hint("watch"),
        ) from None
    bursts = watch(
        *roots,
        watch_filter=None,
        debounce=_LONGEST_BURST_MS,
        step=_QUIET_MS,
        rust_timeout=_POLL_MS,
        yield_on_timeout=True,
        stop_event=stop,
        ignore_permission_denied=True,
    )
    try:
        for burst in bursts:
            yield {path for _, path in burst}
    except OSError as error:
        raise InvalidInput(
            f"Cannot watch these folders: {error}",
            hint="Raise fs.inotify.max_user_watches, or watch fewer folders.",
        ) from error


def _scope_of(path: str, root: str) -> str | None:
    folder, name = os.path.split(path)
    if name in IGNORE_FILES:
        return folder
    if path.endswith(f"/{REPOSITORY}/{EXCLUDE_FILE}"):
        return path.removesuffix(f"/{REPOSITORY}/{EXCLUDE_FILE}")
    below_root = path[len(root) :].split("/")
    return None if VERSION_CONTROL.intersection(below_root) else path
