"""Error texts made from templates: the same error again, and an error that is another one.

A slot in capitals identifies the error; one in small letters varies from one occurrence to the next.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Pair(NamedTuple):
    """Two error texts of a template, and whether they are the same error."""

    template: str
    one: str
    other: str
    is_same: bool


def _digits(low: int, high: int) -> Callable[[Random], str]:
    return lambda random: str(random.randint(low, high))


def _hex(length: int) -> Callable[[Random], str]:
    # A digest without a letter or without a digit would be a number or a word.
    return lambda random: "3e" + "".join(random.choices("0123456789abcdef", k=length - 2))


def _word(length: int) -> Callable[[Random], str]:
    return lambda random: "".join(random.choices(_LETTERS + "0123456789", k=length))


def _made(pattern: str) -> Callable[[Random], str]:
    """Return a maker of texts like the pattern: `9` is a digit, `x` a hexadecimal digit."""
    made = {"9": "0123456789", "x": "0123456789abcdef"}
    return lambda random: "".join(random.choice(made.get(each, each)) for each in pattern)


def _of(*choices: str) -> Callable[[Random], str]:
    return lambda random: random.choice(choices)


def _iso(random: Random) -> str:
    date = f"202{random.randint(3, 6)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    return f"{date}T{_clock(random)}{random.choice(['Z', '.123Z', '+02:00', '.004113'])}"


def _clock(random: Random) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"


def _temporary(random: Random) -> str:
    name = _word(8)(random)
    return random.choice(
        [
            f"/tmp/{name}/out.txt",
            f"/var/folders/zz/{name}/T/x.o",
            f"/tmp/tmp.{name}",
            f"/var/tmp/pip-{name}/a.py",
        ]
    )


VARYING: Final[Mapping[str, Callable[[Random], str]]] = {
    "pid": _digits(2, 99_999),
    "addr": lambda random: "0x" + _made(random.choice(["7fxxxxxxxxxx", "00007fxxxxxxxx", "5x3a2b"]))(random),
    "iso": _iso,
    "clock": _clock,
    "syslog": lambda random: (
        f"{random.choice(['Jan', 'Mar', 'Nov'])} {random.randint(10, 28)} {_clock(random)}"
    ),
    "dur": lambda random: (
        f"{random.randint(1, 900)}{random.choice(['ms', ' ms', 's', ' seconds', '.25s', ' s'])}"
    ),
    "ms": _digits(1, 9_000),
    "tmp": _temporary,
    "wintmp": lambda random: rf"C:\Users\ann\AppData\Local\Temp\{_word(7)(random)}\a.obj",
    "sha": _hex(40),
    "short": _hex(7),
    "container": _hex(12),
    "uuid": _made("xxxxxxxx-xxxx-4xxx-axxx-xxxxxxxxxxxx"),
    "request": lambda random: "A7" + _made("xxxxxxxxxxxxxx")(random).upper(),
    "count": _digits(1, 90_000),
    "line": _digits(1, 2_000),
    "column": _digits(1, 90),
    "bytes": _digits(1_000, 90_000_000),
    "tries": _digits(2, 9),
    "ip": _made("10.9.9.9"),
    "ephemeral": _digits(32_768, 60_999),
    "epoch": lambda random: f"17{_made('99999999')(random)}",
    "pod": lambda random: f"{_made('7d9fxxxxxx')(random)}-{_word(5)(random)}",
    "home": _of("/home/ann", "/home/bob", "/Users/eve", "/root"),
}
_TEXTS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
IDENTIFYING: Final[Mapping[str, Callable[[Random], str]]] = {
    slot: _of(*choices) for slot, choices in _TEXTS["identifying"].items()
}
TEMPLATES: Final = tuple(_TEXTS["templates"])
HELD_BACK: Final = tuple(_TEXTS["held_back"])
"""Written after the rules were chosen, and not used to choose them."""

_SLOT: Final = re.compile(r"{(\w+)}")


def pairs(templates: tuple[str, ...], count: int, seed: int) -> Iterator[Pair]:
    """Yield pairs of texts, of the same error and of different errors in turn."""
    random = Random(seed)
    identified = [each for each in templates if _slots(each, IDENTIFYING)]
    varied = [each for each in templates if _slots(each, VARYING)]
    for number in range(count):
        is_same = number % 2 == 0
        template = random.choice(varied if is_same else identified)
        yield _pair(template, random, is_same=is_same)


def _pair(template: str, random: Random, *, is_same: bool) -> Pair:
    known = {slot: IDENTIFYING[slot](random) for slot in _slots(template, IDENTIFYING)}
    changed = dict(known)
    if not is_same:
        slot = random.choice(sorted(known))
        while changed[slot] == known[slot]:
            changed[slot] = IDENTIFYING[slot](random)
    return Pair(template, _filled(template, known, random), _filled(template, changed, random), is_same)


def _filled(template: str, known: Mapping[str, str], random: Random) -> str:
    filled = _SLOT.sub(lambda slot: known.get(slot[1]) or VARYING[slot[1]](random), template)
    return filled.replace("{{", "{").replace("}}", "}")


def _slots(template: str, makers: Mapping[str, object]) -> list[str]:
    return [slot for slot in _SLOT.findall(template) if slot in makers]
