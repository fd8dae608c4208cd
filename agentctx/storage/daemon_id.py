"""The id of a daemon among those that share a database: its leases are its own again after a restart."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final

FILE_NAME: Final = "daemon-id"
"""In the data folder, which belongs to one daemon."""


def daemon_id(data_dir: Path) -> str:
    """The id in the data folder, made when there is none. Raises OSError."""
    path = data_dir / FILE_NAME
    if path.is_file() and (known := path.read_text(encoding="utf-8").strip()):
        return known
    made = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    new = path.with_name(f"{path.name}.new")
    new.write_text(made, encoding="utf-8")
    new.chmod(0o600)
    new.replace(path)
    return made
