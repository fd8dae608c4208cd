"""Checks that a regex cannot express. Rules list them by name; each takes only the matched secret."""

from __future__ import annotations

import binascii
import json
import math
import re
import tomllib
from base64 import b64decode, urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

_WORDS: Final[Mapping[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)
_PLACEHOLDER: Final = re.compile(
    r"""
      <[^<>]*> | %\w+% | \{[^{}]*\} | \{\{.*\}\} | \*+     # <your-key>, %KEY%, {key}, {{ key }}, ****
    | \$\w+                                             # $KEY
    | (?i:pass(?:word|wd)?|pwd|secret|token|none|null|undefined)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLACEHOLDER_PART: Final = re.compile(
    r"""
      \$[{(] | \.\.\.|…                                  # ${KEY}, prefix-$(key), sk-…
    | x{4}|X{4}|\*{3}|0{8}|(?:1234567890){2}
    | (?i:your[-_ ]|example|placeholder|change[-_]?(?:me|it)|redacted|dummy|replace[-_ ])
    """,
    re.VERBOSE,
)
_NAME: Final = r"(?:[a-z_]+\d*|[A-Z_]+\d*|[A-Za-z][a-z]+(?:[A-Z][a-z]+)*\d*)"
_REFERENCE: Final = re.compile(
    rf"""
      (?:\.{{0,2}}|~|[A-Za-z]:)[/\\](?:[\w.-]*[/\\])*[\w.-]*(?::\d+){{0,2}}
    | \$.{{0,2}}\w+[^\w]? | [$@&]\{{?[\w.:-]+\}}?
    | (?:https?|file|op|vault|ref|secret|arn|projects?|env|aws-sm|gcp-sm|sm|ssm
      |keyring)(?::|/).*
    | :\w+ | urn:.* | \d{{1,3}}(?:\.\d{{1,3}}){{3}}[:/\d]* | [\w:,]+(?:\|[\w:,]+){{1,99}}\|?
    | [^(]*\([^)]*\).* | .*[(\[{{] | [^{{]*\{{[^}}]*\}}.* | .*\d{{4}}-\d\d-\d\d[T ].*
    | {_NAME}(?:(?:\.|->|::|\?\.){_NAME})+ | \W+
    | (?i:sha(?:1|256|384|512)|md5)[-:].* | [^\[]*\[\w*\] | [\w.]+/[\w./-]+\.\w{{1,5}} | \d+/\d+
    | [a-z]+(?::(?:[a-z]+|v\d))+ | [a-z_-]+(?:/[a-z_-]+)+
    """,
    re.VERBOSE | re.DOTALL,
)
_PUNCTUATION: Final = frozenset("!@#%^&*=+~")
_MIN_KINDS: Final = 4
"""Generated passwords have this many kinds of punctuation, references fewer."""
_IDENTIFIER: Final = re.compile(r"[^\W\d][\w-]*[:.!?]?")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[^\W\d_]?[^\W\d_A-Z]+|\d+")
_CODE_WORDS: Final = frozenset(_WORDS["code"])
_UI_WORDS: Final = frozenset(_WORDS["form"])
_SENTENCE_WORDS: Final = frozenset(_WORDS["sentence"])
_WALLET_LENGTHS: Final = (12, 15, 18, 21, 24)
_MAX_CHECKED_CHARS: Final = 160
_SELF_NAMED: Final = re.compile(r"(?i:passwor[dt]|secret|token|credential|passphrase)")
# At least four letters, of one case or capitalized, with a vowel in every four of them.
_PRONOUNCEABLE: Final = re.compile(
    r"[A-Z]?(?=[a-z]{0,3}[aeiouy])(?:(?![^aeiouy\W\d_A-Z]{4})[a-z]){3,}|(?<![A-Za-z0-9])(?=[A-Z]{0,3}[AEIOUY])[A-Z]{4,}+(?![A-Za-z0-9])"
)
_USUAL_ENDING: Final = re.compile(
    r".*(?:ed|ing|able|ible|tory|less|lich|bar|oria|orio|ario|aria|ado|ada|ido|ida|é|ée|iste|ção|tion|ment|ly)"
)
_FIGURE: Final = re.compile(
    r"[\d.,:%>=<-]+|\d+[^\x00-\x7f].*|(?:https?|file):.*|\W*|(?i:sha|aes|md|argon|pbkdf|rsa|hmac|utf|base|oauth)-?\d+"
    r"|[A-Za-z]{1,10}-?\d+(?:\.\d+)+"
)
_PUBLIC_PREFIXES: Final = frozenset(_WORDS["public_prefixes"])
_PUBLIC_KEY: Final = re.compile(r"(?:pk|phc|pub|sb_publishable)[_.]")
_NAMED_DIGEST: Final = re.compile(r"[A-Za-z]\w*(?:-[\w.]+)+-(?:[0-9a-f]{40}|[0-9a-f]{64})")
# What vendors choose as a prefix; the first part of random text is of mixed case.
_USUAL_PREFIX: Final = re.compile(r"[a-z0-9]+|[A-Z0-9]+|[A-Za-z][a-z]+(?:[A-Z][a-z]+)*\d*")
_SECRET_PREFIX: Final = re.compile(
    r"(?i:sk|key|tok|pat|secret|sec|api|live|prod|test|auth|priv|acc|admin|svc|bot)"
)
_EXPRESSION: Final = re.compile(
    rf"""
      {_NAME}(?:(?:\.|->|::|\?\.){_NAME})*            # settings.database.password
    | (?:\.{{0,2}}|~|[A-Za-z]:)[/\\][\w.-]*(?:[/\\][\w.-]*)*  # a path
    | [a-z0-9_.-]+(?:/[a-z0-9_.-]+)+                # a path from here
    | https?://[^:@]*                               # an address
    | (?i:sha(?:1|256|384|512)|md5)[-:].*            # a digest that says so
    """,
    re.VERBOSE | re.DOTALL,
)


_DATE: Final = re.compile(
    r"(?<!\d)(?:19|20)\d\d(?:-[01]\d-[0-3]\d|[01]\d[0-3]\d(?:[-_T]?[0-2]\d[0-5]\d(?:[0-5]\d)?)?)(?!\d)"
)
_MIN_KEY_BESIDE_DATE: Final = 12
_BASE64_DIGITS: Final = str.maketrans("+/", "-_", "=~")


def entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character: 0 for one repeated, log2(n) for n different ones."""
    length = len(text)
    return -sum(count / length * math.log2(count / length) for count in Counter(text).values())


def _letter_and_digit(secret: str) -> bool:
    return any(map(str.isalpha, secret)) and any(map(str.isdigit, secret))


def _upper_and_lower(secret: str) -> bool:
    return any(map(str.isupper, secret)) and any(map(str.islower, secret))


def _upper_lower_digit(secret: str) -> bool:
    return _upper_and_lower(secret) and any(map(str.isdigit, secret))


def _not_one_case_word(secret: str) -> bool:
    """Accept digits or high entropy: twenty capitals are more likely a word."""
    return any(map(str.isdigit, secret)) or entropy(secret) > 3.3


def _varied(secret: str) -> bool:
    """Accept what people and generators make up as passwords, not a word, a number, a version or a name."""
    return _letter_and_digit(secret) and re.search(r"[^a-z0-9.,:/-]|[a-z]{6}[0-9]{2}", secret) is not None


def _no_git_hash(secret: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}", secret) is None


def _not_a_placeholder(secret: str) -> bool:
    return _PLACEHOLDER.fullmatch(secret) is None and _PLACEHOLDER_PART.search(secret) is None


def _not_an_expression(secret: str) -> bool:
    """Reject references in code or configuration."""
    return _EXPRESSION.fullmatch(secret) is None


def _json_web_token(secret: str) -> bool:
    """Accept a token whose first part is a JSON object that names an algorithm."""
    try:
        header = json.loads(urlsafe_b64decode(_padded(secret.partition(".")[0])))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)


def _name_and_password(secret: str) -> bool:
    """Accept Base64 of `name:password`, or of PLAIN, where NULs precede both."""
    try:
        text = b64decode(_padded(secret.rstrip("="))).decode()
    except ValueError:
        return False
    name, separator, password = text.partition("\0" if text.startswith("\0") else ":")
    return bool(separator and password) and (name + password.replace("\0", "")).isprintable()


def _discord_token(secret: str) -> bool:
    """Accept a token whose first part is the bot's numeric id in Base64, or whose parts are random."""
    first, _, last = secret.split(".")
    try:
        if urlsafe_b64decode(_padded(first)).isdigit():
            return True
    except binascii.Error:
        pass  # it may be retyped or cut
    return _upper_and_lower(first) and _upper_lower_digit(last) and not _is_made_of_words(last)


def _wallet_words(secret: str) -> bool:
    """Accept as many words as a wallet has, not all the same, and none that only sentences have."""
    words = re.findall(r"[a-z]{3,}", secret)
    is_varied = len(set(words)) > 1
    return len(words) in _WALLET_LENGTHS and is_varied and _SENTENCE_WORDS.isdisjoint(words)


def _is_reference(secret: str) -> bool:
    """Whether this is code or names the place of the secret. `a^b(7x)&c%d@e!` is a password."""
    if _REFERENCE.fullmatch(secret) is None:
        return False
    return "://" in secret or len(_PUNCTUATION & set(secret)) < _MIN_KINDS or not _letter_and_digit(secret)


def _password(secret: str) -> bool:
    """Accept plausible passwords; reject code, types, placeholders and common words of forms."""
    if not _not_a_placeholder(secret) or _is_reference(secret) or secret.endswith(":"):
        return False
    if secret.isdigit():
        return len(secret) >= 6
    if _SELF_NAMED.search(secret) and not (_letter_and_digit(secret) and re.search(r"[^\w.-]", secret)):
        return False
    if _IDENTIFIER.fullmatch(secret):
        return not _is_code(secret)
    words = [word.lower() for word in _WORD.findall(secret)]
    return not (_CODE_WORDS | _UI_WORDS).issuperset(words)


def _is_code(identifier: str) -> bool:
    """Whether an identifier consists of words that are common in programs and forms."""
    if "-" in identifier and identifier[:2] != "X-" and _upper_lower_digit(identifier):
        return False  # names with hyphens are of one case, or headers
    words = [word.lower() for word in _WORD.findall(identifier)]
    if (
        re.fullmatch(r"_[a-z_]+", identifier)
        or not _CODE_WORDS.isdisjoint(words)
        or _UI_WORDS.issuperset(words)
    ):
        return True
    return identifier.replace("-", "").isalpha() and _USUAL_ENDING.fullmatch(identifier.lower()) is not None


def _is_stated_password(secret: str) -> bool:
    """Accept the passwords of a sentence that `_password` accepts, except addresses and figures."""
    secret = secret.rstrip(".!?:")
    if _FIGURE.fullmatch(secret):
        return False
    return len(secret) >= 5 and _password(secret)


def _key(secret: str) -> bool:
    """Accept text that is random enough to be a machine-generated key."""
    secret = secret[:_MAX_CHECKED_CHARS]
    if not _not_a_placeholder(secret) or _is_reference(secret) or _EXPRESSION.fullmatch(secret):
        return False
    if _PUBLIC_KEY.match(secret) or (_NAMED_DIGEST.fullmatch(secret) and not _SECRET_PREFIX.search(secret)):
        return False
    # An OpenPGP fingerprint, or the name of a header.
    if re.fullmatch(r"[0-9A-F]{40}|[Xx](?:-[A-Za-z]?[a-z]{2,12}\d{0,3}){1,6}", secret):
        return False
    undated = _DATE.sub("", secret)
    if undated != secret and len(undated) < _MIN_KEY_BESIDE_DATE:  # a name such as chat-20261124-101500
        return False
    return _letter_and_digit(undated) and not _is_made_of_words(undated)


def _checksummed(secret: str) -> bool:
    """Accept a card's number with a valid last digit (Luhn), and the three or four digits of its code."""
    digits = [int(character) for character in secret if character.isdigit()]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return len(digits) <= 4 or (sum(digits[-1::-2]) + doubled) % 10 == 0


def _stated_key(secret: str) -> bool:
    """Accept keys of mixed case, in hexadecimal or in Base32; reject UUIDs, which often name things."""
    if not _key(secret):
        return False
    return _upper_lower_digit(secret) or bool(re.fullmatch(r"[0-9a-f]{32,}|[A-Z2-7]{26,}=*", secret))


def _query_key(secret: str) -> bool:
    """Accept keys of mixed case; reject hashes and ids of one case, and encoded texts such as addresses."""
    plain = unquote(secret)
    return _key(plain) and _upper_lower_digit(plain) and not _is_encoded_text(plain)


def _is_encoded_text(base64: str) -> bool:
    """Whether most of the bytes are printable ASCII; of random ones, three eighths are."""
    digits = base64.translate(_BASE64_DIGITS)
    data = urlsafe_b64decode(digits[: len(digits) // 4 * 4])
    return 4 * sum(32 <= byte < 127 for byte in data) >= 3 * len(data)


def _is_made_of_words(text: str) -> bool:
    """Whether pronounceable words make up at least three fifths of the text."""
    return 5 * sum(map(len, _PRONOUNCEABLE.findall(text))) >= 3 * len(text)


def _prefixed_token(secret: str) -> bool:
    """Accept a vendor's prefix followed by random characters; reject ids, digests and names."""
    prefix, *_ = parts = re.split(r"[_.-]", secret)
    rest = max(parts, key=len)
    if (
        prefix.lower() in _PUBLIC_PREFIXES
        or (parts[parts.index(rest) - 1] in _PUBLIC_PREFIXES and not _SECRET_PREFIX.fullmatch(prefix))
        or not _USUAL_PREFIX.fullmatch(prefix)
        or not _not_a_placeholder(secret)
        or _is_made_of_words(rest)
    ):
        return False
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", rest):
        return len(rest) >= 32 and bool(_SECRET_PREFIX.search(secret[: secret.index(rest)]))
    if entropy(rest) < 3.6 or not _letter_and_digit(rest):
        return False
    # Ids of one case, such as ULIDs, are shorter.
    return len(rest) >= (20 if _upper_and_lower(rest) else 32)


def _padded(base64: str) -> str:
    return base64 + "=" * (-len(base64) % 4)


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "letter-and-digit": _letter_and_digit,
    "upper-and-lower": _upper_and_lower,
    "upper-lower-digit": _upper_lower_digit,
    "not-one-case-word": _not_one_case_word,
    "varied": _varied,
    "no-git-hash": _no_git_hash,
    "not-a-placeholder": _not_a_placeholder,
    "not-an-expression": _not_an_expression,
    "json-web-token": _json_web_token,
    "name-and-password": _name_and_password,
    "discord-token": _discord_token,
    "wallet-words": _wallet_words,
    "password": _password,
    "stated-password": _is_stated_password,
    "key": _key,
    "stated-key": _stated_key,
    "checksummed": _checksummed,
    "query-key": _query_key,
    "prefixed-token": _prefixed_token,
}
