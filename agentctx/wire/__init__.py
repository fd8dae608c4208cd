"""Request and response bodies of the HTTP API, shared by server and client.

Plain dataclasses from the standard library: the server validates them with pydantic (strictly: no
coercion, unknown fields are errors), the client reads them without importing it. Times are RFC 3339
strings in UTC with milliseconds, positions are code points of `content`, end exclusive.
"""

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
from agentctx.wire.names import (
    API_PREFIX,
    COLLECTIONS,
    DEFAULT_NAMESPACE,
    IDEMPOTENCY_HEADER,
    REQUEST_ID_HEADER,
    VERSION_HEADER,
    CheckStatus,
    EmbeddingState,
    Order,
    Origin,
    PlaceUnit,
    Trust,
)
from agentctx.wire.operations import (
    ActivityStatus,
    BuriedJob,
    DatabaseStatus,
    DrainRequest,
    Latency,
    ProviderStatus,
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

__all__ = [
    "API_PREFIX",
    "COLLECTIONS",
    "DEFAULT_NAMESPACE",
    "IDEMPOTENCY_HEADER",
    "REQUEST_ID_HEADER",
    "VERSION_HEADER",
    "ActivityStatus",
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
    "FileRecord",
    "ForgetReply",
    "Latency",
    "Location",
    "Order",
    "Origin",
    "OutcomeRequest",
    "Passage",
    "PlaceUnit",
    "ProviderStatus",
    "QueueReply",
    "RetryReply",
    "SaveManyReply",
    "SaveManyRequest",
    "SaveRequest",
    "SaveResult",
    "SearchReply",
    "SearchRequest",
    "StatusReply",
    "Trust",
    "VersionList",
]
