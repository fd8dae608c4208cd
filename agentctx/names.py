"""Names: every namespace, and the one way to write a key, tag, session or agent. Standard library only.

A namespace is made from what the world has: the address of a repository, a path, a user. What cannot be part
of a namespace is escaped, under a prefix that no other rule makes: `dir-x:/home/ann/my@20shop`. There, `@20`
is an ASCII character, `@.0LY.` other text as base64 of its UTF-8, and `@@` precedes the hash of a cut name.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAMESPACE: Final = r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}"
NAMESPACE_RULE: Final = (
    "Use up to 128 letters, digits and . _ : @ / -, the first a letter or digit; * is for grants alone."
)
MAX_NAME_CHARS: Final = 256
"""Maximum length of a key, session or agent."""
UNPRINTABLE: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
"""Matches a character that may not be in a name: a control character, line separator or lone surrogate."""

_MAX_CHARS: Final = 128
_MAX_PLAIN_CHARS: Final = 120
"""Longer addresses and paths are cut."""
_CUT: Final = r"-[0-9a-f]{12}\Z"
_KINDS: Final = ("git", "dir", "user")
_PIECE: Final = r"[A-Za-z0-9._:/-]|[\x00-\x7f]|[^\x00-\x7f]{1,12}"
_ESCAPE: Final = r"@([0-9a-f]{2})|@\.([\w-]+)\.|@@[0-9a-f]{16}\Z"
_HASH_CHARS: Final = 16
_ESCAPED_NAME: Final = "escaped:"
"""Prefix of the name of a session or agent that had to be escaped."""
_SPACE: Final = "[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"
_INVISIBLE: Final = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_SHAPED: Final = "[\u0600-\u0dff\u1000-\u109f\u1780-\u18af\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]"
"""Scripts and symbols that joiners and variation selectors shape."""
_JOINER: Final = "[\u200c\u200d\ufe00-\ufe0f]"
_IDLE_JOINERS: Final = f"(?<!{_SHAPED}){_JOINER}+|[\u200c\u200d]{_JOINER}*(?=\\s|\\Z)"


def is_namespace(name: str) -> bool:
    """Return whether the stores accept a namespace."""
    return re.fullmatch(NAMESPACE, name) is not None


def namespace_from(kind: str, original: str) -> str:
    """Return the namespace of an address (`git`), path (`dir`) or user (`user`), a valid one for any text.

    Different originals get different names; those that are cut differ by a hash.
    """
    name = f"{kind}:{original}"
    plain = name if kind == "user" else _cut(name)
    # A name that merely looks as if it had been cut must not be that of a longer one.
    is_lookalike = plain == name and len(name) == _MAX_PLAIN_CHARS and re.search(_CUT, name)
    return plain if is_namespace(plain) and not is_lookalike else _escaped(kind, original)


def namespace_given(text: str) -> str | None:
    """Return the namespace that a user means, who may give it as it is shown; None if it is invalid."""
    kind, _, original = text.partition(":")
    name = namespace_from(kind, original) if kind in _KINDS and not is_namespace(text) else text
    return name if is_namespace(name) else None


def readable(namespace: str) -> str:
    """Return a namespace as it is shown: an escaped one as the address, path or user it was made from."""
    kind, _, escaped = namespace.partition("-x:")
    if kind not in _KINDS or not escaped:
        return namespace
    return f"{kind}:{_printed(re.sub(_ESCAPE, _unescaped, escaped, flags=re.ASCII))}"


def normalised(text: str) -> str:
    """Return a key, tag, session or agent as it is stored and looked up: what looks alike is the same.

    Characters are composed (NFC); spaces are plain, and none are at the ends; of the invisible characters,
    only those stay that shape a script or an emoji.
    """
    if text.isascii():
        return text.strip()
    from unicodedata import normalize

    visible = re.sub(_SPACE, " ", re.sub(_INVISIBLE, "", text))
    name = normalize("NFC", re.sub(_IDLE_JOINERS, "", visible).strip())
    return name if name == text else normalised(name)  # each step may make another one possible


def name_from(reported: str) -> str:
    """Return the name of a session or agent that a program reports, a valid one for any text."""
    name = normalised(reported)
    if 0 < len(name) <= MAX_NAME_CHARS and not re.search(f"^{_ESCAPED_NAME}|{UNPRINTABLE}", name):
        return name
    shown = _printed(name.replace("\\", "\\\\"))
    return f"{_ESCAPED_NAME}{_hash(name)[:_HASH_CHARS]}:{shown}"[:MAX_NAME_CHARS]


def _cut(name: str) -> str:
    if len(name) <= _MAX_PLAIN_CHARS:
        return name
    return f"{name[: _MAX_PLAIN_CHARS - 13]}-{_hash(name)[:12]}"


def _escaped(kind: str, original: str) -> str:
    pieces = [_piece(each) for each in re.findall(_PIECE, original[:_MAX_CHARS])]
    name = f"{kind}-x:{''.join(pieces)}"
    if len(original) <= _MAX_CHARS and len(name) <= _MAX_CHARS:
        return name
    end = f"@@{_hash(original)[:_HASH_CHARS]}"
    while len(name) + len(end) > _MAX_CHARS:
        name = name.removesuffix(pieces.pop())
    return name + end


def _piece(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._:/-]", text):
        return text
    if text.isascii():
        return f"@{ord(text):02x}"
    from base64 import urlsafe_b64encode

    return f"@.{urlsafe_b64encode(text.encode('utf-8', 'surrogatepass')).decode().rstrip('=')}."


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if not match[2]:
        return f"…{match[0][2:]}"
    from base64 import urlsafe_b64decode

    try:
        return urlsafe_b64decode(match[2] + "==").decode("utf-8", "surrogatepass")
    except ValueError:  # a name that somebody wrote by hand
        return match[0]


def _printed(text: str) -> str:
    r"""Return the text with what cannot be printed as `\x0a` or `\u2028`."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _hash(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
