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
        None, description="user, by name or number; or gid"
    )
    gid: Annotated[int | None, BeforeValidator(group_id)] = Field(
        None, description="group, by name or number; or uid"
    )
    namespaces: tuple[str, ...] = Field(
        min_length=1, description='names of namespaces; a * at the end is any rest, "*" is all of them'
    )
    rights: Literal["read", "write", "admin"] = Field(
        description="read, write (and read), or admin (write, and see receipts of others)"
    )

    @model_validator(mode="after")
    def _is_for_someone(self) -> Self:
        if (self.uid is None) == (self.gid is None):
            raise ValueError("a grant needs either a uid or a gid, not both")
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
        50.0, description="requests a user may make in the long run; 0: no limit"
    )
    burst: Annotated[int, Field(gt=0)] = Field(
        200, description="requests that may come at once after a pause"
    )
    queue_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.25,
        description="share of embedding.queue.capacity that a user's texts may wait in while others use the "
        "daemon; 1: no limit",
    )
    stored_mb: _NotNegative = Field(1_024, description="content a user may keep, in MiB; 0: no limit")
    connections: _NotNegative = Field(64, description="connections a user may have open at once; 0: no limit")
