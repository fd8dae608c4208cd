"""The settings about how much each other user may take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentctx.config.section import Section

_NotNegative = Annotated[int, Field(ge=0)]


class QuotaSettings(Section):
    """What each other user may take. The daemon's own user, root and admins have no quotas."""

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
