"""Lines with a generated secret in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from tests.text.redaction.secrets import Make, PlantedSecret

Plant: TypeAlias = Callable[[random.Random], PlantedSecret]


def planting(make: Make, *templates: str) -> Plant:
    """The secret in one of the lines, in place of `§`."""

    def plant(dice: random.Random) -> PlantedSecret:
        secret = make(dice)
        return PlantedSecret(dice.choice(templates).replace("§", secret), secret)

    return plant
