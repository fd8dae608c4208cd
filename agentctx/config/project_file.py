"""Reads `.agentctx.toml`, which sets the namespace of a project for commands run in its folders.

Such a file comes with a cloned repository and may be hostile. So it can choose a namespace and nothing else;
the daemon decides what the user may do there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from agentctx.errors import ConfigInvalid
from agentctx.names import NAMESPACE_RULE, namespace_given

FILE_NAME: Final = ".agentctx.toml"
_MAX_BYTES: Final = 4096
_HINT: Final = 'Write a single line: namespace = "NAME".'


def project_namespace(folder: Path) -> str | None:
    """Return the namespace set by the nearest `.agentctx.toml` in `folder` or above; None without one.

    Files of other users are ignored: anyone may write one to a shared folder like /tmp.

    Raises:
        ConfigInvalid: the file is invalid.
    """
    for parent in (folder, *folder.parents):
        text = _read_trusted(parent / FILE_NAME)
        if text is not None:
            return parse_namespace(text, str(parent / FILE_NAME))
    return None


def parse_namespace(text: str, file: str) -> str:
    """Return the namespace in the text of an `.agentctx.toml`; `file` names the file in errors.

    Raises:
        ConfigInvalid: the text is not TOML, or contains anything but a valid namespace.
    """
    import tomllib  # most folders have no such file

    try:
        settings = tomllib.loads(text)
    except ValueError as error:
        raise ConfigInvalid(f"{file} is not valid TOML: {error}.", hint=_HINT) from None
    if set(settings) != {"namespace"}:
        raise ConfigInvalid(f"{file} may contain only a namespace.", hint=_HINT)
    named = settings["namespace"]
    namespace = namespace_given(named) if isinstance(named, str) else None
    if namespace is None:
        raise ConfigInvalid(f"{file} has an invalid namespace.", hint=NAMESPACE_RULE)
    return namespace


def _read_trusted(path: Path) -> str | None:
    """Return the text of a regular file owned by this user or root, or None without such a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not (stat.S_ISREG(status.st_mode) and _is_trusted(status.st_uid)):
            return None
        content = os.read(descriptor, _MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > _MAX_BYTES:
        raise ConfigInvalid(f"{path} is larger than {_MAX_BYTES} bytes.", hint=_HINT)
    return content.decode(errors="replace")


def _is_trusted(uid: int) -> bool:
    return uid in {0, os.geteuid()}
