"""Errors of the operating system as errors of a command: which file, what is wrong, what to do next."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from agentctx.errors import AgentctxError

_NO_PERMISSION = "Change its permissions and those of its parent folders, or run this as another user."
_NO_SPACE = "Free disk space or choose another location, then run the command again."
_HINTS = {
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: "It is read-only; choose another location.",
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: "The file size limit was reached; `ulimit -f` shows it.",
    errno.ENOENT: "Check the name.",
    errno.ENOTDIR: "Check the path: part of it is not a folder.",
    errno.EISDIR: "Name a file.",
    errno.ELOOP: "The symbolic links in the path form a loop; give the file itself.",
    errno.EMFILE: "Too many files are open; `ulimit -n` shows the limit.",
    errno.EBADF: "It is closed; do not close it with `<&-` or `>&-`.",
}
_OTHERWISE = "Run the command again; `agentctx doctor` checks the daemon's files."


def error_of_system(error: OSError, name: str | None = None) -> AgentctxError:
    """The error for a user. `name` is what was used, where the error does not name a file itself."""
    paths = [os.fsdecode(path) for path in (error.filename, error.filename2) if isinstance(path, str | bytes)]
    what = " to ".join(paths) or name or "The operating system reports"
    return AgentctxError(f"{what}: {error.strerror or error}.", hint=hint_of(error))


def hint_of(error: OSError) -> str:
    """What to do next."""
    return _HINTS.get(error.errno or 0, _OTHERWISE)


@contextmanager
def writing_to(name: str) -> Iterator[None]:
    """Errors of the system in the block are about writing to `name`. A broken pipe stays what it is.

    Raises:
        AgentctxError: something could not be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise error_of_system(error, f"{name} cannot be written") from error
