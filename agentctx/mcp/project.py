"""Map a folder to the namespace of its project's memories.

The name is derived from the repository: the address of its remote, or its path. A clone of a local repository
is named after the original, so clones and worktrees share one project. Folders outside any repository use
`default`. Memories about the user in all projects are in the user's own namespace.
"""

from __future__ import annotations

import os
import pwd
import re
from os.path import dirname, isdir, isfile, join, realpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    Folder = str | os.PathLike[str]

OUTSIDE: Final = "default"
"""Namespace of folders outside any repository, and the default of commands."""
MAX_CLONES: Final = 8
"""Maximum length of a chain of local clones that is followed."""
_MAX_CHARS: Final = 120
_MAX_CONFIG_BYTES: Final = 1 << 20
_SECTION: Final = r'\s*\[\s*remote\s+"(?P<name>(?:[^"\\]|\\.)*)"\s*\]'
_URL: Final = r"(?i)\s*url\s*=\s*(?P<url>.+?)\s*$"
_SCP: Final = r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*|/.*)"


def project_of(folder: Folder) -> str:
    """Return the namespace of a folder's project. Reads the repository's files without running a program."""
    try:
        common = _common_dir(os.path.abspath(folder))
    except FileNotFoundError:  # the working directory was removed
        return OUTSIDE
    if common is None:
        return OUTSIDE
    for _ in range(MAX_CLONES):
        url = remote_url(_text(join(common, "config")))
        cloned = _repository_at(url, common) if url else None
        if cloned is None:
            break
        common = cloned
    return namespace_of(url, common)


def namespaces_of(folder: Folder) -> tuple[str, ...]:
    """Return the namespaces to search: the project's (which receives saves), the user's and `default`."""
    return tuple(dict.fromkeys((project_of(folder), own_namespace(), OUTSIDE)))


def own_namespace() -> str:
    """Return the namespace of the user who runs this process, which is independent of the project."""
    uid = os.getuid()
    try:
        return f"user:{pwd.getpwuid(uid).pw_name}"
    except KeyError:  # an account that exists only in a container
        return f"user:{uid}"


def namespace_of(url: str | None, common_dir: str) -> str:
    """Return the namespace of a repository: `git:HOST/PATH` of its remote, or `dir:PATH` of the folder.

    A name that is too long is truncated and given a hash at its end.
    """
    place = _address(url) if url else None
    path = common_dir.removesuffix(".git").removesuffix("/")
    name = f"git:{place}" if place else f"dir:{path}"
    if len(name) <= _MAX_CHARS:
        return name
    from hashlib import sha256

    return f"{name[: _MAX_CHARS - 13]}-{sha256(name.encode()).hexdigest()[:12]}"


def remote_url(config: str) -> str | None:
    """Return the address of `origin`, or of the first remote, from the text of a repository's config."""
    found: dict[str, str] = {}
    remote = None
    for line in config.splitlines():
        if line.lstrip().startswith("["):
            section = re.match(_SECTION, line)
            remote = section["name"] if section else None
        elif remote is not None and (match := re.match(_URL, line)):
            found.setdefault(remote, match["url"].strip('"'))
    return found.get("origin") or next(iter(found.values()), None)


def _address(url: str) -> str | None:
    """Normalise any form of an address to `host/owner/name`; None for a local path."""
    scheme, separator, rest = url.partition("://")
    if separator:
        if scheme == "file":
            return None
        host, _, path = rest.partition("/")
        host = host.rpartition("@")[2].partition(":")[0]
    elif match := re.fullmatch(_SCP, url):
        host, path = match["host"], match["path"]
    else:
        return None
    path = path.strip("/").removesuffix(".git").rstrip("/")
    return f"{host.lower()}/{path}" if host and path else None


def _repository_at(url: str, common: str) -> str | None:
    """Return the `.git` folder of a local remote, or None. `common` is the clone's `.git` folder."""
    if _address(url):
        return None
    place = join(dirname(common), url.removeprefix("file://").rstrip("/"))
    for each in (join(place, ".git"), place, f"{place}.git"):
        if isfile(join(each, "HEAD")):
            return realpath(each)
    return None


def _common_dir(folder: str) -> str | None:
    """Return the `.git` folder that all worktrees of the repository share."""
    for each in _upwards(folder):
        marker = join(each, ".git")
        if isdir(marker):
            return realpath(marker)
        if isfile(marker):
            return _linked(marker)
    return None


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = dirname(folder)
        if parent == folder:
            return
        folder = parent


def _linked(marker: str) -> str | None:
    """Return the common folder of a worktree or submodule, whose `.git` is a file naming its own folder."""
    named = _text(marker).strip()
    if not named.startswith("gitdir:"):
        return None
    own = realpath(join(dirname(marker), named.removeprefix("gitdir:").strip()))
    common = _text(join(own, "commondir")).strip()
    return realpath(join(own, common)) if common else own


def _text(path: str) -> str:
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            return (file.read(_MAX_CONFIG_BYTES) or b"").decode(errors="replace")
    except OSError:
        return ""


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, because a pipe may never have a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
