"""Connecting to a server, whose URL may name several hosts, and translating the driver's errors."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from agentctx.config.bounded_files import read_bounded
from agentctx.config.schema import StorageSettings
from agentctx.errors import AgentctxError, ConfigInvalid, StorageCorrupt, StorageFailed, StorageFull

Connection: TypeAlias = Any
"""An `asyncpg.Connection` or a pool's proxy for one; asyncpg publishes no types."""

ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""All errors of the driver. `InternalClientError` occurs when the server terminates several connections."""

BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
SERVER_EPOCH: Final = """CASE WHEN NOT pg_is_in_recovery() THEN concat_ws(' ',
    left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_postmaster_start_time(),
    pg_stat_get_bgwriter_stat_reset_time()) END"""
"""Changes after a crash or failover, when the numbers of lost transactions are assigned again."""
_MARK: Final = f"SELECT pg_current_xact_id_if_assigned()::text, {SERVER_EPOCH}"
CONNECT_TIMEOUT_S: Final = 4.0
KEEPALIVE_TIMEOUT_S: Final = 15
_KEEPALIVE_OPTIONS: Final = {
    "TCP_KEEPIDLE": KEEPALIVE_TIMEOUT_S // 3,
    "TCP_KEEPALIVE": KEEPALIVE_TIMEOUT_S // 3,
    "TCP_KEEPINTVL": KEEPALIVE_TIMEOUT_S // 3,
    "TCP_KEEPCNT": 2,
    "TCP_USER_TIMEOUT": KEEPALIVE_TIMEOUT_S * 1_000,
}
NEAREST_SETTINGS: Final = {"hnsw.ef_search": "100", "hnsw.iterative_scan": "strict_order"}
"""For searches by an HNSW index: its number of candidates, and to scan on until the limit is reached."""
_SETTINGS: Final = {
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "30s",
    **NEAREST_SETTINGS,
}
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LOST: Final = ("08", "57P01", "57P02", "57P03", "25P03", "53300")
"""SQLSTATEs, or prefixes, of a server that is away or has closed this connection."""
_RETRIED: Final = ("40001", "40P01", "23503", "23505", "0A000")
"""Serialization failure; deadlock; a row that another transaction created or removed, as the next attempt
will see; a cached plan for a table that was changed."""
_REFUSALS: Final = {
    "28": (
        "rejects the user or the password",
        "Check the user in storage.url, the file in storage.password_file and the server's pg_hba.conf.",
    ),
    "3D000": ("does not have the database", "Create the database: createdb NAME"),
    "42501": (
        "denies the role a privilege that agentctx needs",
        "Connect as the owner of the tables, or grant this role what agentctx-postgresql's roles.sql grants.",
    ),
    "25006": ("accepts no writes", "Point storage.url at the primary; saving resumes automatically."),
    "42P01": ("lacks a table", "Run `agentctx migrate` as the owner of the tables, which creates them."),
}
"""Refusals by the server, each with what to do next, by prefix of the SQLSTATE."""
_POOLED: Final = 'Set storage.pooler = "transaction", or connect to the server without the pooler.'
_REFUSED: Final = ("refused it", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A database on a server. `url` contains no password; `password` is never shown."""

    url: str
    password: str | None = field(default=None, repr=False)
    is_pooled: bool = False
    """Whether a pooler may give each transaction another connection, so that sessions have no state."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for `asyncpg.connect`. TCP uses TLS with a verified name unless the URL has `sslmode`.

        Raises:
            ConfigInvalid: the URL is invalid, or would send the password in clear text.
        """
        arguments: dict[str, Any] = {
            "dsn": self.url,
            "timeout": CONNECT_TIMEOUT_S,
            "server_settings": {"application_name": "agentctx"},
        }
        if self.password is not None:
            arguments["password"] = self.password
        if self.is_pooled:
            arguments["statement_cache_size"] = 0
        else:
            arguments["server_settings"] |= _SETTINGS
        if (tls := self._tls()) is not None:
            arguments["ssl"] = tls
        if len(urls := each_host(self.url)) > 1:
            arguments |= {"connect": HostFinder(urls), "target_session_attrs": "read-write"}
        return arguments

    def _tls(self) -> ssl.SSLContext | None:
        """Return the default for TCP; None if the URL decides, or for a Unix socket with file permissions."""
        mode = dict(parse_qsl(urlsplit(self.url).query)).get("sslmode")
        hosts = {host for url in each_host(self.url) if (host := tcp_host(url)) is not None}
        if not hosts:
            return None
        is_plain = mode in {"disable", "allow", "prefer"}
        if is_plain and self.password is not None and not hosts <= _LOCAL_HOSTS:
            raise ConfigInvalid(
                "storage.url would send the password without TLS.",
                hint="Remove sslmode from storage.url, or set it to verify-full.",
            )
        return ssl.create_default_context() if mode is None else None


class TransactionId(NamedTuple):
    """The number of a transaction, and the epoch (`SERVER_EPOCH`) of the server that assigned it."""

    number: str
    epoch: str | None


class Transaction:
    """A connection in a transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._mark: TransactionId | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    def note_id(self, number: str, epoch: str | None) -> None:
        """Store the mark that a statement returned with its rows, which saves a round trip."""
        self._mark = TransactionId(number, epoch)

    async def mark(self) -> TransactionId | None:
        """Return the mark by which the transaction's outcome can be looked up; None if it wrote nothing."""
        if self._mark is None:
            number, epoch = await self._conn.fetchrow(_MARK)
            self._mark = None if number is None else TransactionId(number, epoch)
        return self._mark


@asynccontextmanager
async def transaction(conn: Connection, begin: str = BEGIN) -> AsyncIterator[None]:
    """Run the block in a transaction, rolled back if it raises. `begin` may contain further statements."""
    try:
        await conn.execute(begin)
        yield
        await conn.execute("COMMIT")
    except BaseException:
        with suppress(*ERRORS):  # the first error is the one to report
            await conn.execute("ROLLBACK")
        raise


@asynccontextmanager
async def in_snapshot(conn: Connection, *settings: str) -> AsyncIterator[None]:
    """Run the block in one snapshot, with `settings`, each a `SET LOCAL`."""
    if conn.is_in_transaction():
        await conn.execute("; ".join(settings))
        yield
        return
    async with transaction(conn, "; ".join((BEGIN_READING, *settings))):
        yield


def password_of(settings: StorageSettings) -> str | None:
    """Return the password, or the first line of its file; None to use libpq's files. Raises ConfigInvalid."""
    if settings.password is not None:
        return settings.password.get_secret_value()
    if settings.password_file is None:
        return None
    try:
        return read_bounded(settings.password_file).decode().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"The file {settings.password_file} of storage.password_file cannot be read.",
            hint="Check its path and its permissions.",
        ) from error


def enable_keepalive(conn: Connection) -> None:
    """Let the kernel close a connection to a dead host, because statements have no time limit.

    A dead host acknowledges neither data nor a probe for `KEEPALIVE_TIMEOUT_S`.
    """
    peer = conn._transport.get_extra_info("socket")  # noqa: SLF001 - the driver offers no other access to it
    if peer is None or peer.family == socket.AF_UNIX:
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:  # macOS and Linux have different ones
            peer.setsockopt(socket.IPPROTO_TCP, option, value)


def is_lost(error: BaseException) -> bool:
    """Return whether the connection or the server is gone, so that another connection may work."""
    if isinstance(error, asyncpg.PostgresError):
        return str(error.sqlstate).startswith(_LOST)
    if isinstance(error, asyncpg.exceptions.ClientConfigurationError | ssl.SSLCertVerificationError):
        return False
    return isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError | TimeoutError)


def is_retryable(error: BaseException) -> bool:
    """Return whether retrying the same transaction may succeed."""
    if isinstance(error, TimeoutError):  # of a connection attempt: a retry would wait as long
        return False
    return is_lost(error) or getattr(error, "sqlstate", None) in _RETRIED


def translated(error: BaseException, server: str = "The PostgreSQL server") -> AgentctxError:
    """Translate a driver's error to ours, without the server's message, which may quote values."""
    state = str(getattr(error, "sqlstate", None) or "")
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        refusal, advice = _REFUSALS["25006"]
        return StorageFailed(f"{server} {refusal}.", hint=advice)
    if is_lost(error):
        return StorageFailed(
            f"{server} does not answer ({_name(error)}).",
            hint="Nothing is lost; saving resumes automatically once the server is back.",
        )
    if state == "53100":
        return StorageFull(f"{server} has no disk space left.")
    if state in {"57014", "55P03"}:
        return StorageFailed(
            f"{server} took too long ({_name(error)}).", hint="Nothing was changed: try again."
        )
    if state.startswith("XX00"):
        return StorageCorrupt(f"{server} reports damage ({_name(error)}).")
    what, hint = next((refusal for start, refusal in _REFUSALS.items() if state.startswith(start)), _REFUSED)
    return StorageFailed(f"{server} {what} ({_name(error)}).", hint=hint)


def not_opened(error: BaseException, server: str) -> AgentctxError:
    """Like `translated`, for the first connection: ConfigInvalid if waiting for the server would not help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigInvalid(
            f"The certificate of {server} is not trusted, or is not for this host.",
            hint="Add sslmode=verify-full&sslrootcert=/path/ca.pem to storage.url for a CA of your own.",
        )
    if isinstance(error, ValueError):
        return ConfigInvalid(
            f"Invalid parameter in storage.url ({_name(error)}).",
            hint="Use postgresql://USER@HOST/DATABASE, with sslmode and sslrootcert if needed.",
        )
    failed = translated(error, server)
    if _is_pooler_error(error):
        return ConfigInvalid(f"{server} is a pooler ({_name(error)}).", hint=_POOLED)
    if str(getattr(error, "sqlstate", None)).startswith(("28", "3D000")):
        return ConfigInvalid(failed.message, hint=failed.hint)
    if is_lost(error):
        return StorageFailed(
            failed.message,
            hint="Check the host, the port and any sslrootcert in storage.url. The server must run and, over "
            "TCP, offer TLS.",
        )
    return failed


def _is_pooler_error(error: BaseException) -> bool:
    """Return whether a pooler rejected session settings or gave a statement another connection."""
    return isinstance(
        error,
        asyncpg.ProtocolViolationError
        | asyncpg.InvalidSQLStatementNameError
        | asyncpg.DuplicatePreparedStatementError,
    )


def _name(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    return f"{type(error).__name__}, {state}" if state else type(error).__name__


def each_host(url: str) -> list[str]:
    """Return a URL for each host, in order.

    Raises:
        ConfigInvalid: the URL has several ports, but not one for each host.
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]
    options = dict(parse_qsl(parts.query))
    names, ports = options.get("host", "").split(","), options.get("port", "").split(",")
    if len(names) == 1:
        return [url]
    if len(ports) not in {1, len(names)}:
        raise ConfigInvalid(
            f"storage.url has {len(names)} hosts and {len(ports)} ports.",
            hint="Give one port for all hosts, or one for each.",
        )
    queries = [
        {**options, "host": name, **({"port": port} if port else {})}
        for name, port in zip(names, ports * (len(names) // len(ports)), strict=True)
    ]
    return [parts._replace(query=urlencode(query, safe="/")).geturl() for query in queries]


def tcp_host(url: str) -> str | None:
    """Return the TCP host of a URL with one host; None for a Unix socket."""
    parts = urlsplit(url)
    host = dict(parse_qsl(parts.query)).get("host") or parts.hostname
    return None if host is None or host.startswith("/") else host


class HostFinder:
    """Connects to the first host that accepts writes, trying the previous one first.

    The driver has one timeout for all hosts, so a silent host would keep it from the others.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = list(urls)

    async def __call__(self, _: object, **options: Any) -> Any:
        """Connect like `asyncpg.connect`. Raises the error of the last host."""
        *others, last = self._urls
        for url in others:
            try:
                return self._found(url, await asyncpg.connect(url, **options))
            except Exception as error:
                if not is_lost(error):
                    raise
        return self._found(last, await asyncpg.connect(last, **options))

    def _found(self, url: str, conn: Any) -> Any:
        if url != self._urls[0]:
            self._urls = [url, *(other for other in self._urls if other != url)]
        return conn
