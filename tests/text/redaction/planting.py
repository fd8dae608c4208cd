"""Lines with a generated secret in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from tests.text.redaction.secrets import Make, Planted

Plant: TypeAlias = Callable[[random.Random], Planted]


def planting(make: Make, *templates: str) -> Plant:
    """The secret in one of the lines, in place of `§`."""

    def plant(dice: random.Random) -> Planted:
        secret = make(dice)
        return Planted(dice.choice(templates).replace("§", secret), secret)

    return plant
