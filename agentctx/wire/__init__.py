"""Request and response bodies of the HTTP API, shared by server and client.

Plain dataclasses of the standard library: the server validates them strictly with pydantic (no coercion,
unknown fields are errors), the client reads them without importing it. Times are RFC 3339 strings in UTC with
milliseconds; positions are code points of `content`, end exclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentctx.wire.protocol import *  # noqa: F403 - all of them are of the protocol

if TYPE_CHECKING:
    from agentctx.wire.audit import *  # noqa: F403
    from agentctx.wire.doctor import *  # noqa: F403
    from agentctx.wire.entries import *  # noqa: F403
    from agentctx.wire.failures import *  # noqa: F403
    from agentctx.wire.files import *  # noqa: F403
    from agentctx.wire.injections import *  # noqa: F403
    from agentctx.wire.operations import *  # noqa: F403
    from agentctx.wire.questions import *  # noqa: F403
    from agentctx.wire.review import *  # noqa: F403
    from agentctx.wire.transfer import *  # noqa: F403
    from agentctx.wire.trust import *  # noqa: F403

# Building a dataclass takes most of a millisecond, and building all of them as long as the rest of a client,
# so each is imported on first use.
MODULES = {
    "audit": "AuditEvent AuditFault AuditPage AuditVerdict",
    "doctor": "CheckResult DoctorReply DoctorSummary",
    "entries": (
        "EditRequest EntryPage EntryView FileRecord FileState ForgetAllReply ForgetReply NamespaceCount "
        "NamespaceList RewriteReply OutcomeRequest SaveManyReply SaveManyRequest SaveRequest SaveResult "
        "VersionPage"
    ),
    "failures": "ErrorBody ErrorReply",
    "files": "FileMark MarkFilesReply MarkFilesRequest",
    "injections": (
        "ExplainReply ExplainRequest InjectionCandidate InjectionList InjectionSummary InjectionView"
    ),
    "operations": (
        "AccessReply ActivityStatus BackupReply BackupRequest BackupStatus BuriedJob DatabaseStatus "
        "DrainRequest Latency ModelComparison ModelSpace PageLink ProviderCost ProviderStatus ProxyStatus "
        "QueueReply ReembedCost ReembedReply RetryReply StatusReply WithoutContext"
    ),
    "questions": "ContextReply ContextRequest Location Passage SearchReply SearchRequest",
    "review": "CaptureModeRequest CaptureState KeepRequest ReviewReply",
    "transfer": "ExportReply ExportedEntry ImportEntry ImportRequest",
    "trust": "ReleaseReply RevokeReply RevokeRequest",
}
_HOMES = {name: module for module, names in MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
