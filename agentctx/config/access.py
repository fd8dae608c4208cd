"""The settings for grants and quotas."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from agentctx.config.accounts import group_id, user_id
from agentctx.config.section import Section

_NotNegative = Annotated[int, Field(ge=0)]


class GrantSettings(Section):
    """A grant: what one user, or every member of one group, may do. It is always set as a whole."""

    uid: Annotated[int | None, BeforeValidator(user_id)] = Field(
        None, description="user, by name or number; either this or gid"
    )
    gid: Annotated[int | None, BeforeValidator(group_id)] = Field(
        None, description="group, by name or number; either this or uid"
    )
    namespaces: tuple[str, ...] = Field(
        (), description='names of namespaces; a trailing * matches any rest, "*" matches all'
    )
    rights: Literal["read", "write", "admin", "metrics"] = Field(
        description="read, write (includes read), admin (includes write; sees the receipts of others), or "
        "metrics (only GET /metrics; without namespaces)"
    )

    @model_validator(mode="after")
    def _check_subject(self) -> Self:
        if (self.uid is None) == (self.gid is None):
            raise ValueError("a grant needs either a uid or a gid, not both")
        if bool(self.namespaces) == (self.rights == "metrics"):
            raise ValueError("a grant needs namespaces, except that of metrics, which has none")
        for pattern in self.namespaces:
            if not pattern or "*" in pattern[:-1]:
                raise ValueError(f"{pattern!r}: a * is allowed only at the end of a namespace")
        return self


class AccessSettings(Section):
    """Rights of other users. The daemon's own user and root may do everything."""

    grants: tuple[GrantSettings, ...] = Field(
        (),
        description='rights of other users, like { uid = "alice", namespaces = ["team", "team-*"], '
        'rights = "write" } or { gid = "agents", namespaces = ["*"], rights = "read" }',
    )


class QuotaSettings(Section):
    """Quotas for each user, except the daemon's own user, root and admins."""

    requests_per_second: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        50.0, description="requests per second that a user may make on average; 0: no limit"
    )
    burst: Annotated[int, Field(gt=0)] = Field(
        200, description="requests that a user may make at once after a pause"
    )
    queue_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.25,
        description="share of embedding.queue.capacity in which a user's texts may wait while others use "
        "the daemon; 1: no limit",
    )
    stored_mb: _NotNegative = Field(1_024, description="MiB of content that a user may store; 0: no limit")
    connections: _NotNegative = Field(
        64, description="connections that a user may have open at once; 0: no limit"
    )
