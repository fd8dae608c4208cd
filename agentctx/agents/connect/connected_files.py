"""What `connect` wrote into each file, and the original content, so that it can be undone."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentctx.agents.connect.edits import ConfigEdit
from agentctx.agents.connect.files import content, remove_empty, replace
from agentctx.config.paths import state_dir
from agentctx.errors import ConfigInvalid


class ConnectedFile(NamedTuple):
    """The record of one file. `original` is None if it did not exist; `digest` is of the content written.

    `project` is the project whose settings were changed; None for the user's own settings.
    """

    agent: str
    original: bytes | None
    digest: str
    edits: tuple[ConfigEdit, ...]
    folders: tuple[Path, ...] = ()
    project: Path | None = None


_MAX_BYTES: Final = 64 << 20
"""The file has the former settings of every agent."""


class ConnectedFiles:
    """The connected files, stored in one JSON file.

    Raises:
        ConfigInvalid: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = _read(path)

    def of(self, path: Path) -> ConnectedFile | None:
        return self._files.get(path)

    def files(self, agent: str, project: Path | None = None) -> dict[Path, ConnectedFile]:
        """Return the records of an agent's files in the user's settings, or in those of a project."""
        owner = (agent, project)
        return {
            path: written
            for path, written in self._files.items()
            if (written.agent, written.project) == owner
        }

    def agents(self, project: Path | None = None) -> list[str]:
        return sorted({written.agent for written in self._files.values() if written.project == project})

    def all(self) -> dict[Path, ConnectedFile]:
        """Return the records of all files."""
        return dict(self._files)

    def record(self, path: Path, written: ConnectedFile | None) -> None:
        """Record what was written into a file; None removes its record."""
        self._files = _read(self._path)  # another `agentctx connect` may have changed it
        self._files.pop(path, None)
        if written is not None:
            self._files[path] = written
        if not self._files:
            self._path.unlink(missing_ok=True)
            remove_empty([self._path.parent])
            return
        text = json.dumps({str(each): _to_json(known) for each, known in self._files.items()}, indent=1)
        replace(self._path, text.encode())


def connections_path(env: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file with a user's connected files."""
    return state_dir(env) / "connections.json"


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _read(path: Path) -> dict[Path, ConnectedFile]:
    data = content(path, _MAX_BYTES)
    if data is None:
        return {}
    try:
        return {Path(name): _from_json(stored) for name, stored in json.loads(data).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigInvalid(
            f"The list of connections in {path} cannot be read.", hint="Remove it and connect again."
        ) from error


def _to_json(written: ConnectedFile) -> dict[str, Any]:
    original = None if written.original is None else base64.b64encode(written.original).decode()
    return {
        "agent": written.agent,
        "original": original,
        "digest": written.digest,
        "edits": [list(edit) for edit in written.edits],
        "folders": [str(each) for each in written.folders],
        "project": None if written.project is None else str(written.project),
    }


def _from_json(stored: Mapping[str, Any]) -> ConnectedFile:
    original = None if stored["original"] is None else base64.b64decode(stored["original"])
    edits = tuple(ConfigEdit(kind, tuple(path), value) for kind, path, value in stored["edits"])
    folders = tuple(Path(each) for each in stored["folders"])
    project = None if stored["project"] is None else Path(stored["project"])
    return ConnectedFile(stored["agent"], original, stored["digest"], edits, folders, project)
