"""Tests of what a regex found, for what a regex cannot say. Rules name them; each takes the secret alone."""

from __future__ import annotations

import binascii
import json
import math
import re
from base64 import b64decode, urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(
    r"""
      <[^<>]*> | %\w+% | \{[^{}]*\} | \{\{.*\}\} | \*+     # <your-key>, %KEY%, {key}, {{ key }}, ****
    | \$\w+ | .*\$[{(].*                               # $KEY, ${KEY}, prefix-$(key)
    | .*(?:\.\.\.|…).*                                # sk-…
    | .*(?:x{4}|X{4}|\*{3}|0{8}|(?:1234567890){2}).*
    | (?i:.*(?:your[-_ ]|example|placeholder|change[-_]?me|redacted|dummy|replace[-_ ]).*)
    | (?i:pass(?:word|wd)?|pwd|secret|token|none|null|undefined)
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME: Final = r"(?:[a-z_]+\d*|[A-Z_]+\d*|[A-Za-z][a-z]+(?:[A-Z][a-z]+)*\d*)"
_EXPRESSION: Final = re.compile(
    rf"""
      {_NAME}(?:(?:\.|->|::|\?\.){_NAME})*            # settings.database.password
    | (?:\.{{0,2}}|~|[A-Za-z]:)[/\\][\w.-]*(?:[/\\][\w.-]*)*  # a path
    | [a-z0-9_.-]+(?:/[a-z0-9_.-]+)+                # a path from here
    | https?://[^:@]*                               # an address
    | (?:sha(?:1|256|384|512)|md5)[-:].*            # a digest that says so
    """,
    re.VERBOSE | re.DOTALL,
)


def entropy(text: str) -> float:
    """Bits a character, by Shannon: 0 for one that repeats, log2(n) for n different ones."""
    length = len(text)
    return -sum(count / length * math.log2(count / length) for count in Counter(text).values())


def _letter_and_digit(secret: str) -> bool:
    return any(map(str.isalpha, secret)) and any(map(str.isdigit, secret))


def _upper_and_lower(secret: str) -> bool:
    return any(map(str.isupper, secret)) and any(map(str.islower, secret))


def _upper_lower_digit(secret: str) -> bool:
    return _upper_and_lower(secret) and any(map(str.isdigit, secret))


def _not_one_case_word(secret: str) -> bool:
    """A word of twenty capitals is more likely a word."""
    return any(map(str.isdigit, secret)) or entropy(secret) > 3.3


def _no_git_hash(secret: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}", secret) is None


def _not_a_placeholder(secret: str) -> bool:
    return _PLACEHOLDER.fullmatch(secret) is None


def _not_an_expression(secret: str) -> bool:
    """Not what stands there in code or in a configuration that only refers to it."""
    return _EXPRESSION.fullmatch(secret) is None


def _json_web_token(secret: str) -> bool:
    """Its first part is a JSON object that names an algorithm."""
    try:
        header = json.loads(urlsafe_b64decode(_padded(secret.partition(".")[0])))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)


def _name_and_password(secret: str) -> bool:
    try:
        name, colon, password = b64decode(_padded(secret.rstrip("="))).decode().partition(":")
    except ValueError:
        return False
    return bool(colon and password) and (name + password).isprintable()


def _discord_id(secret: str) -> bool:
    """Its first part is a number of the bot in Base64."""
    try:
        return urlsafe_b64decode(_padded(secret.partition(".")[0])).isdigit()
    except binascii.Error:
        return False


def _padded(base64: str) -> str:
    return base64 + "=" * (-len(base64) % 4)


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "letter-and-digit": _letter_and_digit,
    "upper-and-lower": _upper_and_lower,
    "upper-lower-digit": _upper_lower_digit,
    "not-one-case-word": _not_one_case_word,
    "no-git-hash": _no_git_hash,
    "not-a-placeholder": _not_a_placeholder,
    "not-an-expression": _not_an_expression,
    "json-web-token": _json_web_token,
    "name-and-password": _name_and_password,
    "discord-id": _discord_id,
}
