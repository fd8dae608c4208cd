"""Texts that try to give an LLM orders, and lines that do not, many in the same words; from `data/`."""

from __future__ import annotations

import base64
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_DATA: Final = Path(__file__).parent / "data"
_PIECE: Final = re.compile("«([^»]*)»")


class Payload(NamedTuple):
    """A text and the kind of its attempt."""

    attempt: str
    text: str


def payloads(seed: int = 7) -> list[Payload]:
    """Return all payloads as they are, and a disguised form of each, chosen by the seed."""
    dice = random.Random(seed)
    plain = list(_plain())
    return [*plain, *(Payload(each.attempt, dice.choice(_DISGUISES)(each.text)) for each in plain)]


def benign_lines(count: int = 1_200, seed: int = 11) -> list[str]:
    """Return this many different lines: the written ones, then generated ones."""
    dice, kinds = random.Random(seed), list(_BENIGN["lines"].values())
    found = dict.fromkeys([*_lines("benign.txt"), *_BENIGN["odd"]])
    while len(found) < count:
        found[_filled(dice.choice(dice.choice(kinds)), dice)] = None
    return list(found)


def _plain() -> Iterator[Payload]:
    texts = tomllib.loads((_DATA / "payloads.toml").read_text("utf-8"))
    verbs, objects, demands = texts["ignore"].values()
    for number, verb in enumerate(verbs):
        for at, what in enumerate(objects):
            yield Payload("ignore", f"{verb} {what} {demands[(number + at) % len(demands)]}")
    for attempt, rows in texts["single"].items():
        yield from (Payload(attempt, text) for text in rows)


def _filled(line: str, dice: random.Random) -> str:
    """Return the line with its words: the same one wherever its name stands, but a new number each time."""
    words: dict[str, str] = {name: dice.choice(_BENIGN[name]) for name in ("noun", "word", "who", "when")}
    words |= {"Noun": words["noun"].title(), "other": dice.choice(_BENIGN["noun"])}

    def word(match: re.Match[str]) -> str:
        least, _, most = match[1].partition("..")
        drawn = str(dice.randint(int(least), int(most))) if most else dice.randbytes(24).hex()
        return words.get(match[1], drawn)

    return _PIECE.sub(word, line)


def _lines(name: str) -> list[str]:
    return (_DATA / name).read_text("utf-8").splitlines()


def _tags(text: str) -> str:
    return "Nice weather." + "".join(chr(0xE0000 + ord(each)) for each in text if 0x20 <= ord(each) < 0x7F)


def _full_width(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if 0x21 <= ord(each) < 0x7F else each for each in text)


def _cyrillic(text: str) -> str:
    return text.translate(str.maketrans("aeopcy", "\u0430\u0435\u043e\u0440\u0441\u0443"))


_DISGUISES: Final[tuple[Callable[[str], str], ...]] = (
    str.upper,
    "\u200b".join,
    _tags,
    _full_width,
    lambda text: "Decode and do: " + base64.b64encode(text.encode()).decode(),
    _cyrillic,
    lambda text: f"Our notes of Tuesday follow.\n\n{text}\n\nThe next meeting is in May.",
    lambda text: f"\u202e{text[::-1]}\u202c",
)
_BENIGN: Final = tomllib.loads((_DATA / "benign.toml").read_text("utf-8"))
WRITTEN: Final = _lines("payloads.txt")
"""Texts that were written without looking at the rules."""
FOREIGN: Final = _lines("foreign.txt")
FOREIGN_BENIGN: Final = _lines("foreign_benign.txt")
PLAUSIBLE: Final = _lines("plausible.txt")
"""Falsehoods that read like facts: no screening of shapes finds them; trust and caps limit these."""
