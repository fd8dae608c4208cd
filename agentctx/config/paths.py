"""The paths of the socket, data, config, cache and service on this machine. Standard library only.

The search order of the socket is part of the interface: `--socket`, `AGENTCTX_SOCKET`,
`$XDG_RUNTIME_DIR/agentctx/agentctx.sock`, `/run/agentctx/agentctx.sock`,
`~/.local/state/agentctx/agentctx.sock`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

SOCKET_NAME = "agentctx.sock"
SYSTEM_SOCKET = Path("/run/agentctx") / SOCKET_NAME
CONFIG_NAME = "config.toml"
SYSTEM_CONFIG = Path("/etc/agentctx") / CONFIG_NAME
SYSTEM_UNIT = Path("/etc/systemd/system/agentctx.service")
INSTALL_SERVICE = "agentctx service install --user"
IS_MAC = sys.platform == "darwin"
NO_HOME = Path("/nonexistent")
MAX_SOCKET_PATH_BYTES = 104
"""`sun_path` holds 108 bytes on Linux and 104 on macOS."""


def socket_candidates(env: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the paths where a client looks for the socket; the first match wins."""
    if named := env.get("AGENTCTX_SOCKET"):
        return [Path(named)]
    runtime = env.get("XDG_RUNTIME_DIR")
    candidates = [Path(runtime) / "agentctx" / SOCKET_NAME] if runtime else []
    return [*candidates, SYSTEM_SOCKET, state_dir(env) / SOCKET_NAME]


def find_socket(env: Mapping[str, str] = os.environ) -> Path:
    """Return the first candidate that exists and is visible to this user, else the one that a daemon of this
    user would create.
    """
    candidates = socket_candidates(env)
    return next((path for path in candidates if os.access(path, os.F_OK)), default_socket(env))


def default_socket(env: Mapping[str, str] = os.environ) -> Path:
    """Return the path on which a daemon started by this user listens."""
    if named := env.get("AGENTCTX_SOCKET"):
        return Path(named)
    if systemd := env.get("RUNTIME_DIRECTORY"):
        return Path(systemd.split(":")[0]) / SOCKET_NAME
    if runtime := env.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "agentctx" / SOCKET_NAME
    return state_dir(env) / SOCKET_NAME


def user_unit(env: Mapping[str, str] = os.environ) -> Path:
    """Return the file of the service that `agentctx service install --user` installs."""
    if IS_MAC:
        return _home(env) / "Library/LaunchAgents/agentctx.plist"
    return _xdg(env, "XDG_CONFIG_HOME", ".config") / "systemd/user/agentctx.service"


def user_service_socket(env: Mapping[str, str] = os.environ) -> Path:
    """Return the socket of that service. Agents may have no `XDG_RUNTIME_DIR`; systemd always has."""
    runtime = state_dir(env) if IS_MAC else Path(env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return (runtime if IS_MAC else runtime / "agentctx") / SOCKET_NAME


def can_start_at_login(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether something starts services for this user; it does not in most containers."""
    return IS_MAC or (Path(env.get("XDG_RUNTIME_DIR") or os.devnull) / "systemd/private").exists()


def is_login_start_offered(socket: Path, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether this daemon could start at login, but does not. A service sees no `AGENTCTX_*`."""
    is_same = socket == user_service_socket(env) and not any(name.startswith("AGENTCTX_") for name in env)
    return is_same and not user_unit(env).exists() and can_start_at_login(env)


def start_command(socket: str | Path, env: Mapping[str, str] = os.environ) -> str:
    """Return the command that starts the daemon on a socket: an installed service, else `agentctx serve`."""
    from shlex import quote

    path, is_root = Path(socket), os.geteuid() == 0
    is_own, is_default = path == user_service_socket(env), path == default_socket(env)
    is_usual = is_own or (is_default and not env.get("AGENTCTX_SOCKET"))
    has_system = (is_usual or path == SYSTEM_SOCKET) and SYSTEM_UNIT.is_file()
    if is_own and user_unit(env).is_file() and not (is_root and has_system):
        return "launchctl kickstart gui/$UID/agentctx" if IS_MAC else "systemctl --user start agentctx"
    if has_system:
        return "systemctl start agentctx" if is_root else "sudo systemctl start agentctx"
    return "agentctx serve" if is_usual or is_default else f"agentctx serve --socket {quote(str(socket))}"


def default_data_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the database: systemd's `StateDirectory`, else the XDG data home."""
    if systemd := env.get("STATE_DIRECTORY"):
        return Path(systemd.split(":")[0])
    return _xdg(env, "XDG_DATA_HOME", ".local/share") / "agentctx"


def state_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what should survive a restart but is not worth a backup."""
    return _xdg(env, "XDG_STATE_HOME", ".local/state") / "agentctx"


def served_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of notes that databases were served, which must not be in a data folder.

    It is systemd's second `StateDirectory`, else in the XDG state home.
    """
    _, _, systemd = env.get("STATE_DIRECTORY", "").partition(":")
    return Path(systemd) if systemd else state_dir(env) / "served"


def cache_dir(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for data that can be rebuilt, such as the built model."""
    if systemd := env.get("CACHE_DIRECTORY"):
        return Path(systemd.split(":")[0])
    return _xdg(env, "XDG_CACHE_HOME", ".cache") / "agentctx"


def config_candidates(env: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the candidate config files. The one in /etc is the service's alone: systemd names its folder."""
    if named := env.get("AGENTCTX_CONFIG"):
        return [Path(named)]
    if systemd := env.get("CONFIGURATION_DIRECTORY"):
        return [Path(systemd.split(":")[0]) / CONFIG_NAME]
    return [_xdg(env, "XDG_CONFIG_HOME", ".config") / "agentctx" / CONFIG_NAME]


def _xdg(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    value = env.get(variable, "")
    return Path(value) if value.startswith("/") else _home(env) / fallback


def _home(env: Mapping[str, str]) -> Path:
    """Return the home folder; one that does not exist if there is no HOME and the user has no account."""
    try:
        return Path(env.get("HOME") or Path.home())
    except RuntimeError:
        return NO_HOME
