"""The base class of all tables of the configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A table of the config. It is frozen, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
