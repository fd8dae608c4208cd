"""Request and response bodies of the HTTP API, shared by server and client.

Plain dataclasses from the standard library: the server validates them with pydantic (strictly: no
coercion, unknown fields are errors), the client reads them without importing it. Times are RFC 3339
strings in UTC with milliseconds, positions are code points of `content`, end exclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentctx.wire.names import (
    API_PREFIX,
    COLLECTIONS,
    DEFAULT_NAMESPACE,
    IDEMPOTENCY_HEADER,
    REQUEST_ID_HEADER,
    VERSION_HEADER,
    CheckStatus,
    EmbeddingState,
    Fate,
    InjectionPosition,
    Order,
    Origin,
    PlaceUnit,
    ReembedAction,
    ReembedStage,
    Trust,
    Verdict,
)

if TYPE_CHECKING:
    from agentctx.wire.doctor import CheckResult, DoctorReply, DoctorSummary
    from agentctx.wire.entries import (
        EditRequest,
        EntryPage,
        EntryView,
        FileRecord,
        ForgetReply,
        OutcomeRequest,
        SaveManyReply,
        SaveManyRequest,
        SaveRequest,
        SaveResult,
        VersionList,
    )
    from agentctx.wire.failures import ErrorBody, ErrorReply
    from agentctx.wire.injections import (
        ExplainReply,
        ExplainRequest,
        InjectionCandidate,
        InjectionList,
        InjectionSummary,
        InjectionView,
    )
    from agentctx.wire.operations import (
        ActivityStatus,
        BackupReply,
        BackupRequest,
        BuriedJob,
        DatabaseStatus,
        DrainRequest,
        Latency,
        ProviderCost,
        ProviderStatus,
        ProxyStatus,
        QueueReply,
        RetryReply,
        StatusReply,
    )
    from agentctx.wire.questions import (
        ContextReply,
        ContextRequest,
        Location,
        Passage,
        SearchReply,
        SearchRequest,
    )
    from agentctx.wire.reembed import ModelComparison, ModelSpace, ReembedCost, ReembedReply
    from agentctx.wire.transfer import ExportedEntry, ExportReply, ImportEntry, ImportRequest

__all__ = [
    "API_PREFIX",
    "COLLECTIONS",
    "DEFAULT_NAMESPACE",
    "IDEMPOTENCY_HEADER",
    "REQUEST_ID_HEADER",
    "VERSION_HEADER",
    "ActivityStatus",
    "BackupReply",
    "BackupRequest",
    "BuriedJob",
    "CheckResult",
    "CheckStatus",
    "ContextReply",
    "ContextRequest",
    "DatabaseStatus",
    "DoctorReply",
    "DoctorSummary",
    "DrainRequest",
    "EditRequest",
    "EmbeddingState",
    "EntryPage",
    "EntryView",
    "ErrorBody",
    "ErrorReply",
    "ExplainReply",
    "ExplainRequest",
    "ExportReply",
    "ExportedEntry",
    "Fate",
    "FileRecord",
    "ForgetReply",
    "ImportEntry",
    "ImportRequest",
    "InjectionCandidate",
    "InjectionList",
    "InjectionPosition",
    "InjectionSummary",
    "InjectionView",
    "Latency",
    "Location",
    "ModelComparison",
    "ModelSpace",
    "Order",
    "Origin",
    "OutcomeRequest",
    "Passage",
    "PlaceUnit",
    "ProviderCost",
    "ProviderStatus",
    "ProxyStatus",
    "QueueReply",
    "ReembedAction",
    "ReembedCost",
    "ReembedReply",
    "ReembedStage",
    "RetryReply",
    "SaveManyReply",
    "SaveManyRequest",
    "SaveRequest",
    "SaveResult",
    "SearchReply",
    "SearchRequest",
    "StatusReply",
    "Trust",
    "Verdict",
    "VersionList",
]

# A dataclass costs a millisecond to make: a client makes those it meets.
_HOMES = {
    "ActivityStatus": "operations",
    "BackupReply": "operations",
    "BackupRequest": "operations",
    "BuriedJob": "operations",
    "CheckResult": "doctor",
    "ContextReply": "questions",
    "ContextRequest": "questions",
    "DatabaseStatus": "operations",
    "DoctorReply": "doctor",
    "DoctorSummary": "doctor",
    "DrainRequest": "operations",
    "EditRequest": "entries",
    "EntryPage": "entries",
    "EntryView": "entries",
    "ErrorBody": "failures",
    "ErrorReply": "failures",
    "ExplainReply": "injections",
    "ExplainRequest": "injections",
    "ExportReply": "transfer",
    "ExportedEntry": "transfer",
    "FileRecord": "entries",
    "ForgetReply": "entries",
    "ImportEntry": "transfer",
    "ImportRequest": "transfer",
    "InjectionCandidate": "injections",
    "InjectionList": "injections",
    "InjectionSummary": "injections",
    "InjectionView": "injections",
    "Latency": "operations",
    "Location": "questions",
    "ModelComparison": "reembed",
    "ModelSpace": "reembed",
    "OutcomeRequest": "entries",
    "Passage": "questions",
    "ProviderCost": "operations",
    "ProviderStatus": "operations",
    "ProxyStatus": "operations",
    "QueueReply": "operations",
    "ReembedCost": "reembed",
    "ReembedReply": "reembed",
    "RetryReply": "operations",
    "SaveManyReply": "entries",
    "SaveManyRequest": "entries",
    "SaveRequest": "entries",
    "SaveResult": "entries",
    "SearchReply": "questions",
    "SearchRequest": "questions",
    "StatusReply": "operations",
    "VersionList": "entries",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
