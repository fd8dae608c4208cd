"""Reproducible randomness."""

from __future__ import annotations

import random


def seeded(seed: int) -> random.Random:
    return random.Random(seed)
