"""Worlds with twins: memories about things of one kind whose names are easily taken for each other. No I/O
but the file of sentence forms.
"""

from __future__ import annotations

import random
import tomllib
from calendar import month_name
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

FORMS = Path(__file__).with_name("twin_forms.toml")

Asked: TypeAlias = Literal["known", "unknown", "rule"]
"""Whether the question names what a memory is about, names what only has twins, or needs a general rule."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the memory that answers it, None if no memory does."""

    kind: str
    asked: Asked
    is_paraphrase: bool
    text: str
    right: str | None


@dataclass(frozen=True, slots=True)
class World:
    """Memories, and questions about them."""

    memories: tuple[str, ...]
    questions: tuple[Question, ...]


def worlds(count: int, seed: int = 45) -> Iterator[World]:
    """Yield worlds of about 50 memories and 120 questions each, the same ones for each seed."""
    for number in range(count):
        yield _world(random.Random(f"{seed} {number}"))


def _world(drawn: random.Random) -> World:
    memories: list[str] = []
    questions: list[Question] = []
    unused = {kind: list(_names(kind, drawn)) for kind in _NAMES}
    for form in _forms()["form"]:
        names, kind = [unused[form["kind"]].pop() for _ in range(3)], form["kind"]
        for name, body in zip(names, drawn.sample(form["bodies"], 2), strict=False):
            memories.append(body.format(n=_written(kind, name, drawn)))
            questions += _asked(form, name, "known", memories[-1], drawn)
        questions += _asked(form, names[2], "unknown", None, drawn)
    for rule in _forms()["rule"]:
        memories.append(rule["body"])
        name = _written(rule["kind"], unused[rule["kind"]].pop(), drawn)
        questions.append(
            Question(rule["kind"], "rule", False, drawn.choice(rule["asks"]).format(n=name), rule["body"])
        )
    drawn.shuffle(memories)
    return World(tuple(memories), tuple(questions))


def _asked(
    form: Mapping[str, Any], name: str, asked: Asked, right: str | None, drawn: random.Random
) -> Iterator[Question]:
    for phrasing in ("direct", "paraphrase"):
        text = drawn.choice(form[phrasing]).format(n=_written(form["kind"], name, drawn))
        if drawn.random() < 0.3:
            text = text.lower()
        yield Question(form["kind"], asked, phrasing == "paraphrase", text, right)


def _written(kind: str, name: str, drawn: random.Random) -> str:
    """Write a name in one of its forms."""
    if kind == "date":
        year, month, day = map(int, name.split("-"))
        word = month_name[month]
        forms = [name, f"{day} {word} {year}", f"{word} {day}, {year}", f"{day} {word[:3]} {year}"]
        return drawn.choice([*forms, f"{day:02}/{month:02}/{year}"])
    if kind == "amount":
        whole, cents = name.split(".")
        thousands = f"{int(whole):,}.{cents}"
        return drawn.choice([f"{thousands} EUR", f"€{thousands}", f"{whole}.{cents} euros"])
    return name


def _names(kind: str, drawn: random.Random) -> list[str]:
    """Return different names of one kind that resemble one another, in random order."""
    names = list(dict.fromkeys(_NAMES[kind](drawn)))
    drawn.shuffle(names)
    return names


def _digits(drawn: random.Random, length: int) -> list[str]:
    """Return numbers of the same digits in another order."""
    digits = drawn.sample("123456789", length)
    return ["".join(drawn.sample(digits, length)) for _ in range(24)]


def _tickets(drawn: random.Random) -> list[str]:
    stem = "".join(drawn.sample("ABCDEFGHKLMNPRSTW", drawn.randint(2, 4)))
    return [f"{stem}-{digits}" for digits in _digits(drawn, 4)]


def _hashes(drawn: random.Random) -> list[str]:
    return [
        f"{drawn.choice('abcdef')}{drawn.getrandbits(28):07x}"[:8].replace("0", "7") + "4" for _ in range(12)
    ]


def _hosts(drawn: random.Random) -> list[str]:
    domain = f"{drawn.choice(_words('machines'))}-{drawn.choice(_words('nouns'))}.example"
    return [f"{service}.{domain}" for service in _words("services")]


def _files(drawn: random.Random) -> list[str]:
    folder = f"src/{drawn.choice(_words('services'))}"
    return [f"{folder}/{noun}{drawn.choice(['.py', '.py', '.toml'])}" for noun in _words("nouns")]


def _functions(drawn: random.Random) -> list[str]:
    verb = drawn.choice(_words("verbs"))
    if drawn.random() < 0.5:
        return [f"{verb}_{noun}" for noun in _words("nouns")]
    return [f"{verb}{noun.title()}" for noun in _words("nouns")]


def _codes(drawn: random.Random) -> list[str]:
    stem = drawn.choice(["E", "ERR-", "K", "PX", "TS"])
    return [f"{stem}{digits}" for digits in _digits(drawn, 4)]


def _firms(drawn: random.Random) -> list[str]:
    return [f"{firm} {drawn.choice([*_words('forms_of_firm'), ''])}".strip() for firm in _words("firms")]


def _people(drawn: random.Random) -> list[str]:
    with_surname = drawn.random() < 0.3
    return [
        f"{name} {drawn.choice(_words('surnames'))}" if with_surname else name for name in _words("people")
    ]


def _versions(drawn: random.Random) -> list[str]:
    major, v = drawn.randint(1, 9), drawn.choice(["", "v"])
    return [f"{v}{major}.{drawn.randint(0, 14)}.{drawn.randint(0, 9)}" for _ in range(12)]


def _numbered(drawn: random.Random) -> list[str]:
    what = drawn.choice(_words("numbered"))
    return [f"{what} {number}" for number in range(2, 30)]


def _services(drawn: random.Random) -> list[str]:
    ending = drawn.choice(["", "-api", "-worker", "d"])
    return [f"{service}{ending}" for service in _words("services")]


def _machines(drawn: random.Random) -> list[str]:
    stem = drawn.choice(_words("machines"))
    return [f"{stem}-{number:02}" for number in range(1, 20)]


_NAMES: Mapping[str, Callable[[random.Random], list[str]]] = {
    "ticket": _tickets,
    "issue": lambda drawn: [f"#{digits}" for digits in _digits(drawn, 4)],
    "version": _versions,
    "hash": _hashes,
    "ip": lambda drawn: [f"10.{drawn.randint(1, 40)}.8.{drawn.randint(2, 250)}" for _ in range(12)],
    "host": _hosts,
    "port": lambda drawn: _digits(drawn, 4),
    "code": _codes,
    "file": _files,
    "function": _functions,
    "amount": lambda drawn: [f"{digits[:-2]}.{digits[-2:]}" for digits in _digits(drawn, 6)],
    "date": lambda drawn: [f"2026-{drawn.randint(1, 12):02}-{drawn.randint(1, 28):02}" for _ in range(20)],
    "numbered": _numbered,
    "environment": lambda _: _words("environments"),
    "service": _services,
    "person": _people,
    "customer": _firms,
    "machine": _machines,
}


@cache
def _forms() -> Mapping[str, Any]:
    return tomllib.loads(FORMS.read_text("utf-8"))


def _words(name: str) -> list[str]:
    words: str = _forms()["words"][name]
    return words.split()
