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

from agentctx.names import namespace_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    Folder = str | os.PathLike[str]

OUTSIDE: Final = "default"
"""Namespace of folders outside any repository, and the default of commands."""
MAX_CLONES: Final = 8
"""Maximum length of a chain of local clones that is followed."""
_MAX_CONFIG_BYTES: Final = 1 << 20
_SECTION: Final = r'\s*\[\s*remote\s+"(?P<name>(?:[^"\\]|\\.)*)"\s*\]'
_URL: Final = r"(?i)\s*url\s*=(?P<url>.+)"
_VALUE: Final = r'(?:"(?:[^"\\]|\\.)*"?|\\.|[^"\\#;])*'
"""A value of git's config, in which a comment may follow."""
_ESCAPED: Final = {"n": "\n", "t": "\t", "b": "\b"}
_SCP: Final = r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*|/.*)"
_SCP_IN_BRACKETS: Final = r"(?:[^@/\[]+@)?\[(?:[^@/\]]+@)?(?P<host>[^@/\]]+)\]:(?P<path>.+)"
"""An address with a port, or of an IPv6 host: `[git@host:2222]:path`, `git@[2001:db8::1]:path`."""


def project_of(folder: Folder) -> str:
    """Return the namespace of a folder's project. Reads the repository's files without running a program."""
    try:
        common = _common_dir(os.path.abspath(folder))
    except (FileNotFoundError, ValueError):  # a working directory that was removed, a NUL in a path
        return OUTSIDE
    if common is None:
        return OUTSIDE
    for _ in range(MAX_CLONES):
        url = remote_url(_text(join(common, "config")))
        cloned = _repository_at(url, common) if url else None
        if cloned is None:
            break
        common = cloned
    # The same path in every locale: git writes bytes, which are UTF-8 in most paths.
    return namespace_of(url, os.fsencode(common).decode(errors="surrogateescape"))


def namespaces_of(folder: Folder) -> tuple[str, ...]:
    """Return the namespaces to search: the project's (which receives saves), the user's and `default`."""
    return tuple(dict.fromkeys((project_of(folder), own_namespace(), OUTSIDE)))


def own_namespace() -> str:
    """Return the namespace of the user who runs this process, which is independent of the project."""
    uid = os.getuid()
    try:
        return namespace_from("user", pwd.getpwuid(uid).pw_name)
    except KeyError:  # an account that exists only in a container
        return f"user:{uid}"


def namespace_of(url: str | None, common_dir: str) -> str:
    """Return the namespace of a repository: `git:HOST/PATH` of its remote, or `dir:PATH` of the folder."""
    address = _address(url) if url else None
    if address:
        return namespace_from("git", address)
    return namespace_from("dir", common_dir.removesuffix(".git").removesuffix("/"))


def remote_url(config: str) -> str | None:
    """Return the address of `origin`, or of the first remote, from the text of a repository's config."""
    urls: dict[str, str] = {}
    remote = None
    for line in config.split("\n"):
        if line.lstrip().startswith("["):
            section = re.match(_SECTION, line)
            remote = section["name"] if section else None
        elif remote is not None and (match := re.match(_URL, line)):
            urls.setdefault(remote, _value(match["url"]))
    return urls.get("origin") or next(iter(urls.values()), None)


def _value(text: str) -> str:
    """Return a value of git's config, without its quotes, escapes and comment."""
    match = re.match(_VALUE, text.strip())
    value = match[0].rstrip() if match else ""
    return re.sub(r'"|\\(.)', lambda part: _ESCAPED.get(part[1], part[1]) if part[1] else "", value)


def _address(url: str) -> str | None:
    """Normalise any form of an address to `host/owner/name`; None for a local path."""
    scheme, separator, rest = url.partition("://")
    if separator:
        if scheme == "file":
            return None
        host, _, path = rest.partition("/")
        host = host.rpartition("@")[2]
    elif match := re.fullmatch(_SCP, url):
        host, path = match["host"], match["path"]
        if "]" in host + path and (bracketed := re.fullmatch(_SCP_IN_BRACKETS, url)):
            host, path = f"[{bracketed['host']}]", bracketed["path"]
    else:
        return None
    host = _without_port(host)
    path = path.strip("/").removesuffix(".git").rstrip("/")
    return f"{host.lower()}/{path}" if host and path else None


def _without_port(host: str) -> str:
    """Return the host, in brackets if it is an IPv6 address."""
    if not host.startswith("["):
        return host.partition(":")[0]
    inside = host[1:].partition("]")[0]
    return f"[{inside}]" if inside.count(":") > 1 else inside.partition(":")[0]


def _repository_at(url: str, common: str) -> str | None:
    """Return the `.git` folder of a local remote, or None. `common` is the clone's `.git` folder."""
    if _address(url):
        return None
    path = url
    if url.startswith("file://"):
        raw = os.fsencode(url.removeprefix("file://"))
        path = os.fsdecode(re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), raw))
    repository = join(dirname(common), path.rstrip("/"))
    for git_dir in (join(repository, ".git"), repository, f"{repository}.git"):
        if isfile(join(git_dir, "HEAD")):
            return realpath(git_dir)
    return None


def _common_dir(folder: str) -> str | None:
    """Return the `.git` folder that all worktrees of the repository share."""
    for parent in _upwards(folder):
        marker = join(parent, ".git")
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
    named = _text(marker).rstrip("\r\n")
    if not named.startswith("gitdir:"):
        return None
    own = realpath(join(dirname(marker), named.removeprefix("gitdir:").removeprefix(" ")))
    common = _text(join(own, "commondir")).rstrip("\r\n")
    return realpath(join(own, common)) if common else own


def _text(path: str) -> str:
    try:
        # A pipe may never have a writer, so opening it must not wait for one.
        with open(
            path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        ) as file:
            return (file.read(_MAX_CONFIG_BYTES) or b"").decode(errors="surrogateescape")
    except OSError:
        return ""
