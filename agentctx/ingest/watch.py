"""Watches folders: makes one full pass, then a pass over the changed paths after each burst of changes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Event
from typing import Any, TypeAlias

from agentctx.config.extras import install_hint
from agentctx.errors import DaemonUnreachable, DeadlineExceeded, InvalidInput, StorageFailed, Unavailable
from agentctx.ingest.ignore import EXCLUDE_FILE, IGNORE_FILES, REPOSITORY
from agentctx.ingest.names import escape_path, is_within
from agentctx.ingest.walk import VERSION_CONTROL, folder_identity

MAX_SCOPES = 50
"""With more changed paths than this, a full pass is cheaper."""
RETRY_S = 1.0
_QUIET_MS = 200
_LONGEST_BURST_MS = 1_000
_POLL_MS = 500
_MAX_PAUSES = 60
_OCTAL = re.compile(r"\\([0-7]{3})")
"""An escaped character in a list of mounts."""

_TRANSIENT_ERRORS = (DaemonUnreachable, DeadlineExceeded, StorageFailed, Unavailable)
"""Transient errors to wait out: a restart, overload, a full disk."""

Events: TypeAlias = Iterable[Collection[str] | None]
"""Sets of changed paths; an empty one: nothing has changed for a while; None: anything may have."""
PassRunner: TypeAlias = Callable[[Sequence[str] | None], None]
"""Makes one pass over the given paths, or over everything if they are None."""


class Watch:
    """Follows the events of the folders until `stop` is set or the events end."""

    def __init__(
        self, roots: Sequence[str], run_pass: PassRunner, notify: Callable[[str], None], stop: Event
    ) -> None:
        self._roots = roots
        self._run_pass = run_pass
        self._notify = OnceNotifier(notify)
        self._stop = stop

    def run(self, events: Events) -> None:
        """Make a full pass at the first event set, then one pass after each burst of changes.

        Raises:
            AgentctxError: the first pass failed for a reason that does not pass. A later one is reported.
        """
        is_first = is_due = True
        for changed in events:
            if self._stop.is_set():
                return
            scopes = None if is_due or changed is None else scopes_of(changed, self._roots)
            if scopes is None or scopes:
                is_due = not self._is_done(scopes, is_first=is_first)
            is_first = False

    def _is_done(self, scopes: Sequence[str] | None, *, is_first: bool) -> bool:
        """Make a pass; wait out transient errors, then make a full pass to catch what was missed."""
        is_waiting = False
        while not self._stop.is_set():
            try:
                self._run_pass(scopes)
            except _TRANSIENT_ERRORS as error:
                if not is_waiting:
                    self._notify.always(f"{error.message} Waiting for it to come back.")
                is_waiting, scopes = True, None
                self._stop.wait(RETRY_S)
            except Exception as error:  # the watch must outlive whatever a later change causes
                if is_first:
                    raise
                self._notify(f"This change was not ingested: {error_line(error)}")
                return False
            else:
                if is_waiting:
                    self._notify.always("The daemon is back.")
                return True
        return False


class OnceNotifier:
    """Passes each message on once."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.always = notify
        self._messages: set[str] = set()

    def __call__(self, message: str) -> None:
        if message not in self._messages:
            self._messages.add(message)
            self.always(message)


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


def file_events(roots: Sequence[str], stop: Event, notify: Callable[[str], None]) -> Events:
    """Yield the file system's events in bursts. The first, empty set says that watching has started.

    Whatever the watching library fails on, the folders are looked at as a whole, and watched again; so they
    are when one is replaced, or a disk is mounted or unmounted.

    Raises:
        InvalidInput: watchfiles is not installed.
    """
    try:
        from watchfiles import watch
    except ImportError:
        raise InvalidInput(
            "--watch needs the package watchfiles, which is not installed.",
            hint=install_hint("watch"),
        ) from None
    notify_once, failures, is_lost = OnceNotifier(notify), 0, False
    while not stop.is_set():
        before, is_watched = view_of(roots), False
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
        while (burst := _next(bursts)) is not None:
            if isinstance(burst, BaseException) or view_of(roots) != before:
                break
            yield None if is_lost else burst
            failures, is_lost, is_watched = 0, False, True
        if isinstance(burst, BaseException):
            notify_once(f"Watching was interrupted: {error_line(burst)}. Everything is looked at again.")
            failures += 1
            _pause(roots, before, stop, times=min(_MAX_PAUSES, 2**failures))
        if not is_watched:
            yield None
        is_lost = True  # until it is watched again, or a change during the look would be missed


def error_line(error: BaseException) -> str:
    """Return the type and the message of an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


View: TypeAlias = tuple[object, ...]


def view_of(roots: Sequence[str]) -> View:
    """Return what differs when a folder is replaced, or a disk is mounted or unmounted at or below one."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123 - hot
            mounts = tuple(line for line in lines if _is_below(line, roots))
    except OSError:
        mounts = ()  # not Linux: replaced folders are still noticed
    return (*map(folder_identity, roots), mounts)


def _is_below(line: str, roots: Sequence[str]) -> bool:
    mount_point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), line.split(" ", 5)[4])
    return any(is_within(mount_point, root) for root in roots)


def _next(bursts: Iterator[set[tuple[Any, str]]]) -> set[str] | BaseException | None:
    """Return the next changed paths, what the library failed with, or None if it has stopped."""
    try:
        return {path for _, path in next(bursts)}
    except StopIteration:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the library's panics are no Exceptions
        return error


def _pause(roots: Sequence[str], before: View, stop: Event, *, times: int) -> None:
    """Wait a number of times `RETRY_S`, but no longer than until a folder or a disk is back."""
    for _ in range(times):
        if stop.wait(RETRY_S) or view_of(roots) != before:
            return


def _scope_of(path: str, root: str) -> str | None:
    folder, name = os.path.split(path)
    if name in IGNORE_FILES:
        return folder
    if path.endswith(f"/{REPOSITORY}/{EXCLUDE_FILE}"):
        return path.removesuffix(f"/{REPOSITORY}/{EXCLUDE_FILE}")
    below_root = path[len(root) :].split("/")
    return None if VERSION_CONTROL.intersection(below_root) else path
