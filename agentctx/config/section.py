"""What every table of the configuration is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the config: frozen, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
