"""The error hierarchy. Every class has a stable `code`; `server/errors.py` maps codes to HTTP statuses.

AgentctxError                internal
├── InvalidInput             invalid_input
│   ├── TooLarge             too_large
│   ├── SecretRefused        secret_refused
│   ├── RedactionTimedOut    redaction_timed_out
│   ├── UnknownCollection    unknown_collection
│   └── UnknownProvider      unknown_provider
├── ConfigInvalid            config_invalid
├── NotFound                 not_found
├── Conflict                 conflict
│   ├── VersionConflict      version_conflict
│   ├── KeyTaken             key_taken
│   ├── Forgotten            forgotten
│   ├── Expired              expired
│   ├── SupersessionRefused  supersession_refused
│   └── IdempotencyKeyReused idempotency_key_reused
├── RequestFailed            request_failed
│   ├── RequestTimeout       request_timeout
│   ├── MethodNotAllowed     method_not_allowed
│   └── UpgradeRefused       upgrade_refused
├── StorageFailed            storage_failed
│   ├── StorageCorrupt       storage_corrupt
│   ├── StorageFull          storage_full
│   ├── StorageClosed        storage_closed
│   ├── DatabaseMissing      database_missing
│   ├── SchemaTooNew         schema_too_new
│   ├── SchemaTooOld         schema_too_old
│   ├── SchemaForeign        schema_foreign
│   └── DriverUnsuitable     sqlite_unsuitable
├── AlreadyRunning           already_running
├── ProviderFailed           provider_failed
│   └── SpendCapReached      spend_cap_reached
├── UpstreamFailed           upstream_failed
├── AccessDenied             access_denied
├── RateLimited              rate_limited
├── QuotaExceeded            quota_exceeded
├── DeadlineExceeded         deadline_exceeded
├── Unavailable              unavailable
├── OutOfMemory              out_of_memory
└── DaemonUnreachable        daemon_unreachable
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from agentctx.plain_values import without_values


class AgentctxError(Exception):
    """Base of every error agentctx raises on purpose.

    `message` says what is wrong, `hint` what to do next; both are shown to users and never hold
    entry text, keys or SQL. An error about a request omits quoted values that are not plain (`is_plain`)
    from both, so that a secret pasted into the wrong field does not appear in a terminal or a log.
    """

    code = "internal"
    default_hint = ""
    is_about_request: ClassVar[bool] = False
    request_id = ""
    """Id of the failed request in the daemon's log; set on errors that a client raises."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        hint = self.default_hint if hint is None else hint
        self.message = without_values(message) if self.is_about_request else message
        self.hint = without_values(hint) if self.is_about_request else hint
        super().__init__(self.message)


class InvalidInput(AgentctxError):
    """The request is not valid; nothing was stored.

    Not a `ValueError`: pydantic would turn one raised by a validator into its own error, without the code.
    """

    code = "invalid_input"
    is_about_request = True


class TooLarge(InvalidInput):
    """A body, a text or a list exceeds its limit."""

    code = "too_large"


class SecretRefused(InvalidInput):
    """A text contains secrets, and the daemon is set to refuse instead of redacting; nothing was stored.

    The message names their kinds and positions, never the secrets.
    """

    code = "secret_refused"
    default_hint = 'Remove them and save again, or set redaction.mode = "redact" to have them redacted.'


class RedactionTimedOut(InvalidInput):
    """An operator's redaction rule timed out on a text; nothing was stored, embedded or sent."""

    code = "redaction_timed_out"
    default_hint = (
        "Ask an operator to bound the repetitions in the rule or to disable it (redaction.disabled), "
        "or split the text."
    )


class UnknownCollection(InvalidInput):
    """The collection is neither built in nor declared in the config."""

    code = "unknown_collection"


class UnknownProvider(InvalidInput):
    """The embedding provider id is not in the registry."""

    code = "unknown_provider"


class ConfigInvalid(AgentctxError):
    """The configuration cannot be used: unknown key, wrong type, unreadable file."""

    code = "config_invalid"


class NotFound(AgentctxError):
    """No such entry or route."""

    code = "not_found"
    is_about_request = True


class Conflict(AgentctxError):
    """The request is valid but conflicts with the current state of the data."""

    code = "conflict"
    is_about_request = True


class VersionConflict(Conflict):
    """`if_version` is not the live version of the entry."""

    code = "version_conflict"
    default_hint = "Read the entry again, apply your change to it, and send its version as if_version."


class KeyTaken(Conflict):
    """A change would give an entry the key of another entry."""

    code = "key_taken"
    default_hint = "Edit or forget that one."


class Forgotten(Conflict):
    """An import, or a late copy of a save, would restore an entry that was forgotten."""

    code = "forgotten"
    default_hint = "To bring it back, import it with --include-forgotten."


class Expired(Conflict):
    """An import would restore an expired entry."""

    code = "expired"
    default_hint = "Nothing is lost: expired entries are never returned."


class SupersessionRefused(Conflict):
    """An entry may not supersede or resolve another one; nothing was saved."""

    code = "supersession_refused"


class IdempotencyKeyReused(Conflict):
    """The same `Idempotency-Key` came with another body."""

    code = "idempotency_key_reused"
    default_hint = "Use a fresh Idempotency-Key for every new save."


class RequestFailed(AgentctxError):
    """The HTTP request itself is at fault."""

    code = "request_failed"
    is_about_request = True


class RequestTimeout(RequestFailed):
    """Headers or body did not arrive in time."""

    code = "request_timeout"


class MethodNotAllowed(RequestFailed):
    """The path exists, but not with this method."""

    code = "method_not_allowed"


class UpgradeRefused(RequestFailed):
    """The client asked for another protocol, such as WebSocket."""

    code = "upgrade_refused"


class StorageFailed(AgentctxError):
    """The database failed to carry out an operation; nothing was acknowledged."""

    code = "storage_failed"


class StorageCorrupt(StorageFailed):
    """A stored row differs from what was saved: its bytes changed on disk. Its content is never shown."""

    code = "storage_corrupt"
    default_hint = (
        "Restore a backup, or forget the entry and save it again; `agentctx doctor` lists what is damaged."
    )


class StorageFull(StorageFailed):
    """No space left on the device. Reads continue; writes fail until there is space again."""

    code = "storage_full"
    default_hint = "Free disk space and try again: what was refused is neither saved nor forgotten."


class StorageClosed(StorageFailed):
    """The storage is closing or closed."""

    code = "storage_closed"


class DatabaseMissing(StorageFailed):
    """A daemon has served this database, and it is gone or was replaced. No empty one is created."""

    code = "database_missing"


class SchemaTooNew(StorageFailed):
    """The database was written by a newer agentctx; it was left untouched."""

    code = "schema_too_new"
    default_hint = "Install the newer agentctx again, or restore a backup made with this version."


class SchemaTooOld(StorageFailed):
    """The schema of the database is from before agentctx 0.1.0; it was left untouched."""

    code = "schema_too_old"
    default_hint = (
        "Open it once with 0.1.0. In a clone of agentctx, run `uvx --from git+file://$PWD@v0.1.0 agentctx "
        "migrate --data-dir FOLDER`."
    )


class SchemaForeign(StorageFailed):
    """The database contains tables, triggers, views or indexes that agentctx did not make. None was run."""

    code = "schema_foreign"
    default_hint = (
        "Stop the daemon, and remove them with the program that made them, or restore a backup: `agentctx "
        "doctor` names the newest."
    )


class DriverUnsuitable(StorageFailed):
    """No available SQLite is new enough and able to load extensions."""

    code = "sqlite_unsuitable"


class AlreadyRunning(AgentctxError):
    """Another daemon owns the data folder or the socket; its pid is in the message."""

    code = "already_running"


class Disposition(StrEnum):
    """What the queue does with the jobs of a failed provider call."""

    RETRY = "retry"
    """The provider failed, or a text made it fail: the canary tells which. A text gets bounded tries."""
    LATER = "later"
    """A rate limit: hold the whole lane until `retry_after_s`, or for longer each time."""
    SPLIT = "split"
    """The batch was refused: bisect it until the culprit is alone."""
    BURY = "bury"
    """This text can never be embedded."""
    STOP = "stop"
    """Wrong key, model or address, if the canary is refused too: open the breaker until it is not."""


class ProviderFailed(AgentctxError):
    """An embedding provider call failed.

    `disposition` determines what the queue does; `retry_after_s` is the provider's own hint in seconds.
    """

    code = "provider_failed"

    def __init__(
        self,
        message: str,
        *,
        disposition: Disposition = Disposition.RETRY,
        retry_after_s: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.disposition = disposition
        self.retry_after_s = retry_after_s


class SpendCapReached(ProviderFailed):
    """The provider's daily spending cap is reached, so it is not called again today.

    Neither the provider nor a text is at fault: no failure is counted against them.
    """

    code = "spend_cap_reached"
    default_hint = "Raise embedding.limits.usd_per_day and restart, or wait; no pending job is lost."

    def __init__(self, message: str, *, retry_after_s: float | None = None, hint: str | None = None) -> None:
        super().__init__(message, disposition=Disposition.LATER, retry_after_s=retry_after_s, hint=hint)


class UpstreamFailed(AgentctxError):
    """The vendor behind the proxy did not answer, or its answer was cut short."""

    code = "upstream_failed"


class AccessDenied(AgentctxError):
    """The caller lacks the permission, or is not identified."""

    code = "access_denied"
    is_about_request = True


class RateLimited(AgentctxError):
    """The caller exceeds its share of requests; `retry_after_s` says when to try again."""

    code = "rate_limited"
    default_hint = "Wait for the time in Retry-After. The limits are in [quotas] of the daemon's config."

    def __init__(self, message: str, *, retry_after_s: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class QuotaExceeded(AgentctxError):
    """The caller has stored as much as its quota allows."""

    code = "quota_exceeded"
    default_hint = "Forget what you do not need, or ask an operator to raise quotas.stored_mb."


class DeadlineExceeded(AgentctxError):
    """The work was not done within its deadline."""

    code = "deadline_exceeded"


class Unavailable(AgentctxError):
    """The daemon is shutting down, or not ready yet."""

    code = "unavailable"


class OutOfMemory(AgentctxError):
    """The daemon may use no more memory, so the request was not finished."""

    code = "out_of_memory"
    default_hint = "Ask for less at once, or give the daemon more memory: `agentctx doctor` shows its limits."


class DaemonUnreachable(AgentctxError):
    """No daemon answers on the socket."""

    code = "daemon_unreachable"
    default_hint = (
        "Start it with `agentctx serve`, or give its socket with --socket or AGENTCTX_SOCKET. "
        "`agentctx doctor` shows what is wrong."
    )
