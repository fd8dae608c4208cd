"""Secrets and harmless lines from the files in `data/`, and how well the rules tell them apart.

A row of a TOML file is a kind of secret: what a secret is made of, or a list of which one is drawn, then the
lines it leaks in, where `§` stands for it. In both, `«alnum 36»` are so many characters of an alphabet,
`«1..9»` is a number, `«a|b»` one of these, and `«uuid»` comes from the function of that name in `MAKERS`.
"""

from __future__ import annotations

import base64
import html
import json
import random
import re
import string
import tomllib
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from agentctx.text.redaction.redactor import find
from agentctx.text.redaction.rules import SecretRules

Make: TypeAlias = Callable[[random.Random], str]
Disguise: TypeAlias = Callable[[str, random.Random], str]

_DATA: Final = Path(__file__).parent / "data"
_PIECE: Final = re.compile("«([^»]*)»")
_SAMPLES: Final = 12
"""Secrets of each kind that `caught` tries."""


class PlantedSecret(NamedTuple):
    """A line and the secret in it."""

    line: str
    secret: str


Plant: TypeAlias = Callable[[random.Random], PlantedSecret]


def caught(rules: SecretRules, kinds: Mapping[str, Plant]) -> dict[str, float]:
    """Return, by kind, the share of secrets that are redacted completely: every letter and digit."""
    return {
        kind: sum(_is_cut_out(plant(dice), rules) for _ in range(_SAMPLES)) / _SAMPLES
        for kind, plant in kinds.items()
        for dice in [random.Random(f"planted {kind}")]
    }


def cut_wrongly(rules: SecretRules, lines: Iterable[str]) -> list[str]:
    """Return the lines in which something is found."""
    return [line for line in lines if find(line, rules)]


def planted(kind: str, dice: random.Random) -> PlantedSecret:
    """Return a line with a new secret of this kind."""
    return _KINDS[kind](dice)


def benign_lines(count: int, seed: int) -> list[str]:
    """Return this many harmless lines: the written ones, then generated ones of every shape in turn."""
    dice, shapes = random.Random(seed), _lines("benign_shapes.txt")
    missing = range(count - len(WRITTEN))
    return [*WRITTEN, *(_filled(shapes[number % len(shapes)], dice) for number in missing)]


def benign_addresses(seed: int) -> list[str]:
    """Return addresses with random values in their queries that are no secrets, of every shape."""
    dice = random.Random(seed)
    return [_filled(line, dice) for line in _lines("benign_addresses.txt")]


def _is_cut_out(planted: PlantedSecret, rules: SecretRules) -> bool:
    findings = find(planted.line, rules)
    start = planted.line.index(planted.secret)
    places = (at for at, each in enumerate(planted.secret, start) if each.isalnum())
    return all(any(finding.start <= at < finding.end for finding in findings) for at in places)


def _lines(name: str) -> list[str]:
    return (_DATA / name).read_text("utf-8").splitlines()


def _filled(pattern: str, dice: random.Random) -> str:
    return _PIECE.sub(lambda match: _piece(match[1], dice), pattern)


def _piece(piece: str, dice: random.Random) -> str:
    if piece in MAKERS:
        return MAKERS[piece](dice)
    if piece.startswith("pem "):
        return _pem(*piece.removeprefix("pem ").split("+"))(dice)
    if len(choices := piece.split("|")) > 1:
        return _piece(dice.choice(choices), dice)
    if number := re.fullmatch(r"(\d+)\.\.(\d+)", piece):
        return str(dice.randint(int(number[1]), int(number[2])))
    name, _, length = piece.rpartition(" ")
    if name not in ALPHABETS:
        return piece
    least, _, most = length.partition("..")
    return _some(ALPHABETS[name], dice.randint(int(least), int(most)) if most else int(least), dice)


def _some(alphabet: str, length: int, dice: random.Random) -> str:
    return "".join(dice.choices(alphabet, k=length))


_ALNUM: Final = string.ascii_letters + string.digits
ALPHABETS: Final = {
    "a_to_h": "abcdefgh",
    "a_to_j": "abcdefghij",
    "alnum": _ALNUM,
    "azure": _ALNUM + "_~.-",
    "base32": string.ascii_uppercase + "234567",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijk",
    "base64": _ALNUM + "+/",
    "bech32": "023456789acdefghjklmnpqrstuvwxyz",
    "crypt": _ALNUM + "./",
    "digit": string.digits,
    "django": _ALNUM + "!@#$%^&*-_=+",
    "hex": "0123456789abcdef",
    "letter": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "lower_digit": string.ascii_lowercase + string.digits,
    "nonzero": "123456789",
    "printable": _ALNUM + "!#%^*-_ (){}[]<>~+=,.;:/?|&@$",
    "salt": _ALNUM + "!#%^*-_|{}[]",
    "upper_digit": string.ascii_uppercase + string.digits,
    "upper_hex": "0123456789ABCDEF",
    "url": _ALNUM + "-_",
}


def _uuid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _for_url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def _unpadded(text: str) -> str:
    return _for_url(text).rstrip("=")


def _jwt(dice: random.Random) -> str:
    header = json.dumps({"alg": dice.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    claims = json.dumps({"sub": _some(_ALNUM, 12, dice), "iat": dice.randrange(10**9)})
    signature = _some(ALPHABETS["url"], dice.choice([43, 86, 342]), dice)
    return f"{_unpadded(header)}.{_unpadded(claims)}.{signature}"


def _pem(label: str, head: str = "") -> Make:
    def make(dice: random.Random) -> str:
        body = "\n".join(_some(ALPHABETS["base64"], 64, dice) for _ in range(dice.randint(4, 25)))
        end = _some(ALPHABETS["base64"], 22, dice)
        return f"-----BEGIN {label}-----\n{head}{body}\n{end}==\n-----END {label}-----"

    return make


def _discord(dice: random.Random) -> str:
    bot = _encoded(str(dice.randrange(10**17, 10**18))).rstrip("=")
    return _filled(f"{bot}.G«url 5».«url 38»", dice)


def _password(dice: random.Random) -> str:
    word = "".join(dice.sample(_ALNUM + "!#%^*+=~.-", dice.randint(10, 20)))
    return f"{word}{dice.choice(string.ascii_letters)}{dice.choice(string.digits)}"


def _strong(dice: random.Random) -> str:
    """Return a password from a generator."""
    return _some(_ALNUM + "!#%^*-_", dice.randint(12, 20), dice) + dice.choice("7k")


def _generated(dice: random.Random) -> str:
    return _some(_ALNUM + "!#%^*-_", dice.randint(9, 18), dice) + "aB3"


def _human(dice: random.Random) -> str:
    """Return a password that a person made up."""
    first, second = dice.sample(_WORDS["human"], 2)
    return dice.choice(
        [
            f"{first.capitalize()}{dice.randint(10, 9999)}!",
            f"{first}{second.capitalize()}{dice.randint(1, 99)}",
            f"{first.capitalize()}-{second.capitalize()}#",
            f"{first}$${second}",
        ]
    )


def _two_words(dice: random.Random) -> str:
    first, second = dice.sample(_WORDS["two"], 2)
    return dice.choice(
        [
            f"{first}{second}{dice.randint(10, 999)}",
            f"{first}-{second}{dice.randint(1, 9)}!",
            f"{first}#{second}",
        ]
    )


def _varied(dice: random.Random) -> str:
    first, second = (dice.choice(_WORDS["two"]) for _ in range(2))
    return f"{first.title()}-{second}!{dice.randint(10, 99)}"


def _known(dice: random.Random) -> str:
    """Return a token of a kind that has a rule."""
    tokens = ("ghp_«alnum 36»", "glpat-«alnum 20»", "sk-ant-api03-«url 93»AA", "xoxb-«digit 12»-«alnum 24»")
    return dice.choice([_filled(token, dice) for token in (*tokens, "AKIA«base32 16»")])


_WORDS: Final = tomllib.loads((_DATA / "words.toml").read_text("utf-8"))
MAKERS: Final[Mapping[str, Make]] = {
    "basic": lambda dice: _encoded(f"{_some(string.ascii_lowercase, 6, dice)}:{_password(dice)}"),
    "capital 8": lambda dice: _some(string.ascii_lowercase, 8, dice).capitalize(),
    "discord": _discord,
    "docker auth": lambda dice: _encoded(f"bob:{_generated(dice)}"),
    "encoded words": lambda dice: _encoded(_two_words(dice)),
    "escaped key": lambda dice: json.dumps(_pem("PRIVATE KEY")(dice) + "\n")[1:-1],
    "filter": lambda dice: _for_url(f"page={dice.randint(1, 99)}, sort=new, limit=40"),
    "five words": lambda dice: " ".join(dice.sample(_WORDS["human"], 5)),
    "generated": _generated,
    "human": _human,
    "jwt": _jwt,
    "known": _known,
    "link": lambda dice: _for_url(f"https://www.example.org/pages/{dice.randint(1, 99)}?a=1"),
    "password": _password,
    "prose": lambda dice: " ".join(dice.choices(_WORDS["prose"], k=dice.randint(6, 25))).capitalize() + ".",
    "sasl": lambda dice: _encoded(f"\0bob\0{_two_words(dice)}"),
    "sha256": lambda dice: base64.b64encode(dice.randbytes(32)).decode(),
    "sha512": lambda dice: base64.b64encode(dice.randbytes(64)).decode(),
    "strong": _strong,
    "ten words": lambda dice: " ".join(_filled("«lower 3..9»", dice) for _ in range(10)),
    "two words": _two_words,
    "uuid": _uuid,
    "uuid of hex": lambda dice: re.sub(
        "(.{8})(.{4})(.{4})(.{4})(.*)", r"\1-\2-\3-\4-\5", _filled("«hex 32»", dice)
    ),
    "varied": _varied,
    "wallet words": lambda dice: " ".join(dice.sample(_WORDS["wallet"], dice.choice((12, 15, 18, 21, 24)))),
    "word": lambda dice: dice.choice(_WORDS["one"]) + dice.choice(["", "!", "Xq", "zk"]),
}


def _split(separator: str, edge: int = 4, end: int = 5) -> Disguise:
    def disguise(text: str, dice: random.Random) -> str:
        at = dice.randint(edge, len(text) - end)
        return text[:at] + separator + text[at:]

    return disguise


def _between(separator: str) -> Disguise:
    return _split(separator, 6, 6)


def _each(form: str, share: float = 1) -> Disguise:
    """Write each character, or a share of them, as `form` writes its code."""

    def disguise(text: str, dice: random.Random) -> str:
        return "".join(form.format(ord(c)) if share == 1 or dice.random() < share else c for c in text)

    return disguise


def _mathematical(text: str, _: random.Random) -> str:
    """Return the text in Unicode's mathematical bold letters."""
    plain = string.ascii_uppercase + string.ascii_lowercase + string.digits
    bold = [*range(0x1D400, 0x1D400 + 52), *range(0x1D7CE, 0x1D7CE + 10)]
    return text.translate(dict(zip(map(ord, plain), map(chr, bold), strict=True)))


def _wrapped_base64(text: str, _: random.Random) -> str:
    encoded = _encoded(f"export TOKEN={text}\n")
    return "\n".join(encoded[at : at + 40] for at in range(0, len(encoded), 40))


_SHAPE_DISGUISES: Final[Mapping[str, Disguise]] = {
    "zero width": _split("\u200b"),
    "joiners": lambda text, _: "\u200d".join(text),
    "soft hyphen": _split("\u00ad"),
    "tags": _split("\U000e0041\U000e0042"),
    "written in tags": lambda text, _: "".join(chr(0xE0000 + ord(c)) for c in text),
    "full width": lambda text, _: "".join(chr(ord(c) + 0xFEE0) for c in text),
    "backslash at the end of a line": _split("\\\n  "),
    "line break": _split("\n"),
    "concatenated": _split('" + "'),
    "concatenated, single quotes": _split("' +\n    '"),
    "base64": lambda text, _: _encoded(text),
    "base64 of a line": lambda text, _: _encoded(f"TOKEN={text}\n"),
    "wrapped base64": _wrapped_base64,
    "percent": _each("%{:02x}"),
    "hex": lambda text, _: text.encode().hex(),
    "json escapes": _each("\\u{:04x}"),
    "entities": _each("&#{};"),
    "some entities": lambda text, _: html.escape(text).replace("_", "&lowbar;").replace("-", "&#45;"),
}
_KEPT_BACK_DISGUISES: Final[Mapping[str, Disguise]] = {
    "bidi marks": lambda text, _: text[:7] + "\u200e" + text[7:12] + "\u202c" + text[12:],
    "variation selectors": lambda text, _: "\ufe0f".join((text[:3], text[3:9], text[9:])),
    "grapheme joiner": _between("\u034f"),
    "letters of mathematics": _mathematical,
    "backslash x": _each("\\x{:02x}"),
    "octal": _each("\\{:03o}"),
    "some letters escaped": _each("\\u{:04x}", 0.3),
    "numeric entities": _each("&#x{:x};", 0.5),
    "soft breaks of mail": _between("=\n"),
    "base64 within base64": lambda text, _: _encoded(_encoded(text)),
    "base64 of a config": lambda text, _: _encoded(json.dumps({"user": "bob", "token": text})),
    "base64url without padding": lambda text, _: _unpadded(f"x={text}"),
    "hex": lambda text, _: text.encode().hex(),
    "hex in pairs": lambda text, _: text.encode().hex(" "),
    "percent": _each("%{:02X}"),
    "colours of a terminal": _between("\x1b[31m"),
    "markdown escape": lambda text, _: text.replace("_", "\\_"),
    "concatenated by a dot": _between("' . '"),
    "adjacent literals": _between('"\n     "'),
    "template": _between('" & "'),
}


def _planting(row: list[str | list[str]], disguise: Disguise | None = None) -> Plant:
    made, *lines = row

    def plant(dice: random.Random) -> PlantedSecret:
        secret = _filled(made if isinstance(made, str) else dice.choice(made), dice)
        secret = disguise(secret, dice) if disguise else secret
        return PlantedSecret(str(dice.choice(lines)).replace("§", secret), secret)

    return plant


def _key_file(around: list[str], label: str, lines: int, rest: str) -> Plant:
    """A private key whose lines stand between two texts."""
    before, after = around

    def plant(dice: random.Random) -> PlantedSecret:
        body = [_some(ALPHABETS["base64"], 64, dice) for _ in range(lines)]
        all_lines = [f"-----BEGIN {label}-----", *body, f"-----END {label}-----"]
        text = "".join(f"{before}{line}{after}" for line in all_lines)
        return PlantedSecret(f"{text}{rest}after", f"{after}{before}".join(body))

    return plant


_KNOWN: Final = tomllib.loads((_DATA / "known.toml").read_text("utf-8"))
_UNSEEN: Final = tomllib.loads((_DATA / "kept_back.toml").read_text("utf-8"))
_PLACES: Final = _lines("places.txt")
ANYWHERE: Final = tuple(_KNOWN["anywhere"])
"""Kinds that are recognized wherever they stand; the others by their surroundings."""
_KINDS: Final[Mapping[str, Plant]] = {
    **{kind: _planting([*row, *_PLACES]) for kind, row in _KNOWN["anywhere"].items()},
    **{kind: _planting(row) for kind, row in _KNOWN["beside"].items()},
}
KINDS: Final = tuple(_KINDS)
SHAPES: Final[Mapping[str, Plant]] = {
    **{
        kind: _planting(row, _SHAPE_DISGUISES.get(kind))
        for table in ("shapes", "languages", "shells", "files", "words")
        for kind, row in _KNOWN[table].items()
    },
    **{kind: _key_file(row, "PRIVATE KEY", 6, " ") for kind, row in _KNOWN["key_files"].items()},
    **_KINDS,
}
"""Kinds and shapes of secrets that the rules are tuned on."""
KEPT_BACK: Final[Mapping[str, Plant]] = {
    **{
        kind: _planting(row, _KEPT_BACK_DISGUISES.get(kind))
        for table in ("vendors", "configuration", "requests", "commands", "prose", "disguises")
        for kind, row in _UNSEEN[table].items()
    },
    **{kind: _key_file(row, "RSA PRIVATE KEY", 8, "") for kind, row in _UNSEEN["key_files"].items()},
}
"""Kinds and shapes that no rule was written for; `kept_back.toml` says what they are for."""
WRITTEN: Final = _lines("benign.txt")
KEPT_BACK_BENIGN: Final = _lines("kept_back_benign.txt")
"""Lines that no rule was tuned on, to measure what is cut wrongly; not changed with the rules, either."""
