"""Kinds and shapes of secrets that the rules are tuned on; `kept_back` has others, to measure them by."""

from __future__ import annotations

import base64
import html
import random
import string
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tests.text.redaction.assignments import ASSIGNMENTS
from tests.text.redaction.planting import Plant, planting
from tests.text.redaction.secrets import (
    ALNUM,
    ANYWHERE,
    B64,
    BESIDE,
    HEX,
    URL,
    PlantedSecret,
    made,
    one_of,
    planted,
    some,
)

_WORDS: Final = (
    "Sonnenblume",
    "Sommer-Regen",
    "swordfish",
    "CorrectHorse",
    "tiger#lily",
    "Blaubeere",
    "monkeybars",
)


def _word(dice: random.Random) -> str:
    """A password without digits."""
    return dice.choice(_WORDS) + dice.choice(["", "!", "Xq", "zk"])


def _strong(dice: random.Random) -> str:
    return "".join(dice.choices(ALNUM + "!#%^*-_", k=dice.randint(9, 18))) + "aB3"


def _as(disguise: Callable[[str, random.Random], str], *templates: str) -> Plant:
    """A token of a known kind, disguised."""

    def plant(dice: random.Random) -> PlantedSecret:
        secret = disguise(_known(dice), dice)
        return PlantedSecret(dice.choice(templates).replace("§", secret), secret)

    return plant


def _known(dice: random.Random) -> str:
    return dice.choice(
        [
            "gh" + "p_" + some(ALNUM, 36)(dice),
            "gl" + "pat-" + some(ALNUM, 20)(dice),
            "sk-" + "ant-api03-" + some(URL, 93)(dice) + "AA",
            "xox" + "b-" + some(string.digits, 12)(dice) + "-" + some(ALNUM, 24)(dice),
            "AK" + "IA" + some(string.ascii_uppercase + "234567", 16)(dice),
        ]
    )


def _split(separator: str) -> Callable[[str, random.Random], str]:
    def disguise(text: str, dice: random.Random) -> str:
        at = dice.randint(4, len(text) - 5)
        return text[:at] + separator + text[at:]

    return disguise


def _wide(text: str, _: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) for c in text)


def _wrapped_base64(text: str, _: random.Random) -> str:
    encoded = base64.b64encode(f"export TOKEN={text}\n".encode()).decode()
    return "\n".join(encoded[at : at + 40] for at in range(0, len(encoded), 40))


_BARE: Final = ("use § for it", "token: §", 'key = "§"')
_CODE: Final = ('t = "§"', '{"t": "§"}')

SHAPES: Final[Mapping[str, Plant]] = {
    "bedrock key": planting(made("ABSK", some(B64, 128)), "AWS_BEARER_TOKEN_BEDROCK=§", "bedrock §"),
    "dropbox token": planting(made("sl.", some(URL, 135), "x"), "dropbox §", "DROPBOX=§"),
    "facebook token": planting(made("EAA", some(ALNUM, 180)), "graph §", "FB=§"),
    "kubeconfig": planting(some(B64, 400), "    client-key-data: §", "    client-certificate-data: §"),
    "kubeconfig token": planting(some(ALNUM, 60), "users:\n- name: a\n  user:\n    token: §"),
    "docker auth": planting(
        lambda dice: base64.b64encode(f"bob:{_strong(dice)}".encode()).decode(),
        '{"auths": {"https://index.docker.io/v1/": {"auth": "§"}}}',
    ),
    "mysql": planting(
        one_of(_word, _strong), "mysql -u root -p§ shop", "mysqldump -uroot -p'§' shop", "mariadb -p§ -h db"
    ),
    "sshpass": planting(one_of(_word, _strong), "sshpass -p § ssh bob@host", "sshpass -p '§' scp a b:"),
    "curl": planting(
        one_of(_word, _strong), "curl -u bob:§ https://e.com", "curl --user 'bob:§' https://e.com"
    ),
    "pgpassword": planting(one_of(_word, _strong), "PGPASSWORD=§ psql -h db", "export PGPASSWORD='§'"),
    "redis": planting(one_of(_word, _strong), "redis-cli -h cache -a § ping", "redis-cli -a '§'"),
    "cookies": planting(
        some(HEX, 32),
        "Cookie: sessionid=§",
        "Set-Cookie: sessionid=§; HttpOnly",
        "Cookie: a=b; session=§; c=d",
    ),
    "password without digits": planting(
        _word,
        "password=§",
        "Passwort: §",
        "password is §",
        "the password is §.",
        'password = "§"',
        "DB_PASSWORD=§",
    ),
    "german": planting(_word, "Das Passwort lautet §", "Kennwort: §", "Passwort ist §"),
    "spanish": planting(_word, "contraseña: §", "la contraseña es §", "clave: §"),
    "french": planting(_word, "mot de passe : §", "le mot de passe est §", "mdp: §"),
    "odbc": planting(one_of(_word, _strong), "Driver=x;Server=s;Uid=sa;Pwd=§;", "DSN=d;UID=bob;PWD=§"),
    "zero width": _as(_split("\u200b"), *_BARE),
    "joiners": _as(lambda t, _: "\u200d".join(t), *_BARE),
    "soft hyphen": _as(_split("\u00ad"), *_BARE),
    "tags": _as(_split("\U000e0041\U000e0042"), *_BARE),
    "written in tags": _as(lambda t, _: "".join(chr(0xE0000 + ord(c)) for c in t), "hello §"),
    "full width": _as(_wide, *_BARE),
    "backslash at the end of a line": _as(_split("\\\n  "), *_BARE),
    "line break": _as(_split("\n"), "token:\n§", "§"),
    "concatenated": _as(_split('" + "'), 't = "§"'),
    "concatenated, single quotes": _as(_split("' +\n    '"), "t = '§'"),
    "letter in front": _as(lambda t, _: t, "x§", "key§ is it"),
    "base64": _as(lambda t, _: base64.b64encode(t.encode()).decode(), *_BARE),
    "base64 of a line": _as(lambda t, _: base64.b64encode(f"TOKEN={t}\n".encode()).decode(), *_BARE),
    "wrapped base64": _as(_wrapped_base64, "data: |\n§", "§"),
    "percent": _as(lambda t, _: "".join(f"%{ord(c):02x}" for c in t), "?t=§"),
    "hex": _as(lambda t, _: t.encode().hex(), "blob §"),
    "json escapes": _as(lambda t, _: "".join(f"\\u{ord(c):04x}" for c in t), *_CODE),
    "entities": _as(lambda t, _: "".join(f"&#{ord(c)};" for c in t), "<p>§</p>"),
    "some entities": _as(
        lambda t, _: html.escape(t).replace("_", "&lowbar;").replace("-", "&#45;"), "<p>§</p>"
    ),
    "json in a string": planting(one_of(_word, _strong), '{\\"password\\":\\"§\\"}', "{'password': '§'}"),
    "yaml": planting(_strong, "db:\n  password: §\n  port: 1", "secret: §", "api_token: '§'"),
    "toml and ini": planting(_word, '[db]\npassword = "§"', "[client]\npassword=§"),
    "xml": planting(_strong, "<password>§</password>", "<apiKey>§</apiKey>"),
    "header": planting(some(ALNUM, 32), "X-Api-Key: §", "-H 'x-api-key: §'", "Authorization: Token §"),
    "option": planting(_word, "tool --password § --x", "tool --password=§", "tool --token=§"),
    "unknown prefix": planting(
        made(some(string.ascii_lowercase, 4), "_sk_", some(ALNUM, 32)), "use §", "A=§"
    ),
    "prose": planting(some(ALNUM, 32), "the api key is §", "our token: §", "secret key §"),
    **ASSIGNMENTS,
    **{kind: partial(planted, kind) for kind in (*ANYWHERE, *BESIDE)},
}
