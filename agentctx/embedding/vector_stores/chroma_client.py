"""Chroma's clients: the only module that imports `chromadb`, opens clients and translates their errors."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentctx.config.extras import install_hint
from agentctx.errors import AgentctxError, ConfigInvalid, InvalidInput, StorageFailed, TooLarge

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection


TIMEOUT_S = 60.0
"""Time limit of one request to a server."""

_NAME = re.compile(r"(?!.*\.\.)[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
_ADDRESS = re.compile(r"\d+(\.\d+){3}", re.ASCII)
_UNSAFE = re.compile(r"[^a-zA-Z0-9]+")
_READABLE_CHARACTERS = 24

_SEARCH_EFFORT = {"space": "cosine", "ef_construction": 200, "ef_search": 200}
"""Chroma's own index, set to examine twice as many neighbours as by default."""


def import_chromadb() -> ModuleType:
    """Import `chromadb`; this takes more than a second, so call it in a thread.

    Raises:
        ConfigInvalid: the package is not installed.
    """
    try:
        import_module("chromadb.errors")
        return import_module("chromadb")
    except ImportError as error:
        message = "The vector store chroma needs the package chromadb."
        raise ConfigInvalid(message, hint=install_hint("chroma")) from error


def open_persistent(path: Path) -> ClientAPI:
    """Open Chroma in this process, with its data in the folder `path`."""
    chromadb = import_chromadb()
    with translated_errors(chromadb):
        path.mkdir(parents=True, exist_ok=True)
        return chromadb.PersistentClient(path=path, settings=_settings(chromadb))


def open_http(host: str, port: int, *, ssl: bool, headers: Mapping[str, str] | None) -> ClientAPI:
    """Open a client of a running Chroma server; each request may take up to `TIMEOUT_S`."""
    chromadb = import_chromadb()
    with translated_errors(chromadb):
        _require_answer(f"{'https' if ssl else 'http'}://{host}:{port}", headers)
        client = chromadb.HttpClient(
            host=host, port=port, ssl=ssl, headers=dict(headers or {}), settings=_settings(chromadb)
        )
        for session in _sessions(client):
            session.timeout = TIMEOUT_S
        return client


def _require_answer(address: str, headers: Mapping[str, str] | None) -> None:
    """Check that the server answers, because Chroma's client waits forever for its first answer."""
    import httpx

    path = "/api/v2/heartbeat"
    httpx.get(
        address + path,
        headers=dict(headers or {}),
        timeout=TIMEOUT_S,
        trust_env=False,
        follow_redirects=False,
    ).raise_for_status()


def _sessions(client: ClientAPI) -> list[Any]:
    """Return the HTTP sessions of a client: two, or none for an embedded client."""
    owners = (client, getattr(client, "_admin_client", None))
    sessions = [getattr(getattr(owner, "_server", None), "_session", None) for owner in owners]
    return [session for session in sessions if session is not None]


def parse_url(url: str) -> tuple[str, int, bool]:
    """Return the host, the port and whether to use TLS. The port defaults to 8000, or 443 for `https`.

    Raises:
        InvalidInput: the URL is not `http(s)://host[:port]`.
    """
    hint = "Give it as http://host:port; a token goes into headers."
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput("The Chroma server address is not a valid URL.", hint=hint) from error
    extras = parts.username, parts.password, parts.path.strip("/"), parts.query, parts.fragment
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(extras):
        raise InvalidInput("The Chroma server address is not http(s)://host:port.", hint=hint)
    is_tls = parts.scheme == "https"
    return parts.hostname, port or (443 if is_tls else 8000), is_tls


def require_blocking_client(client: object) -> None:
    """Check that this is one of Chroma's blocking clients.

    Raises:
        InvalidInput: it is Chroma's async client, or not a client.
    """
    method = getattr(client, "get_or_create_collection", None)
    if method is None or inspect.iscoroutinefunction(method):
        raise InvalidInput(
            "The client is not one of Chroma's blocking clients.",
            hint="Pass chromadb.HttpClient, PersistentClient or EphemeralClient; calls are made in threads.",
        )


def collection_name(name: str) -> str:
    """Return the name in Chroma: `name` itself if Chroma accepts it, else one derived from it.

    Chroma accepts 3 to 512 of `a-z A-Z 0-9 . _ -`, with a letter or digit at both ends, no two dots in a row,
    and no IP address. A derived name contains a checksum, so that no two texts share one.
    """
    if _NAME.fullmatch(name) and not _ADDRESS.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    readable = _UNSAFE.sub("-", name)[:_READABLE_CHARACTERS].strip("-")
    return f"{readable}-{digest[:32]}" if readable else f"agentctx-{digest[:32]}"


def open_collection(client: ClientAPI, name: str) -> Collection:
    """Return Chroma's collection with this name, creating it if missing.

    Raises:
        InvalidInput: the collection exists, but does not rank by cosine distance.
    """
    # Without None, Chroma would load its own embedding model.
    collection = client.get_or_create_collection(
        name, embedding_function=None, configuration={"hnsw": dict(_SEARCH_EFFORT)}
    )
    # Not `configuration`, which warns about collections without an embedding model.
    configuration = collection.configuration_json
    index = configuration.get("hnsw") or configuration.get("spann") or {}
    if index.get("space") != "cosine":
        raise InvalidInput(
            f"The Chroma collection {name!r} ranks by {index.get('space')}, not by cosine distance.",
            hint="Give agentctx a Chroma collection of its own.",
        )
    return collection


def close(client: ClientAPI) -> None:
    """Release the client's resources."""
    # Chroma's own close leaves the connections of its HTTP clients open.
    sessions = _sessions(client)
    client.close()
    for session in sessions:
        session.close()


def is_gone(error: Exception) -> bool:
    """Return whether a Chroma error means that a collection is gone or being deleted."""
    return type(error).__name__ == "NotFoundError" or "Missing field" in str(error)


@contextmanager
def translated_errors(chromadb: ModuleType) -> Iterator[None]:
    """Translate Chroma's exceptions to our own errors, without Chroma's text, which may contain content."""
    try:
        yield
    except AgentctxError:
        raise
    # Chroma raises a bare `Exception` for an unknown reply, ValueError if the server does not answer.
    except Exception as error:
        raise _translated(chromadb.errors, error) from error


def _translated(errors: Any, error: Exception) -> AgentctxError:
    match error:
        case errors.InvalidArgumentError() | errors.InvalidDimensionException():
            return InvalidInput(
                "Chroma refused the request.",
                hint="Most often the vectors have a different length than the stored ones.",
            )
        case errors.BatchSizeExceededError() | errors.QuotaError():
            return TooLarge("Chroma refused the request: it exceeds a limit of the server.")
        case errors.ChromaAuthError() | errors.AuthorizationError():
            return StorageFailed("Chroma refused the credentials.", hint="Pass the token in headers.")
        case errors.ChromaError():
            return StorageFailed(f"Chroma failed with {type(error).__name__}.")
        case _:
            return StorageFailed(
                f"Chroma gave an unexpected answer ({type(error).__name__}).",
                hint="Is the Chroma server running there? Is the folder in use with other settings?",
            )


def _settings(chromadb: ModuleType) -> Any:
    return chromadb.config.Settings(anonymized_telemetry=False)
