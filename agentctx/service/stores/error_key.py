"""Which error messages report the same error: what identifies it is kept, what varies is replaced. No I/O.

Kept are codes, ports, versions, signals and files. Replaced are ids, hashes, addresses, times, durations,
counts, temporary paths, and the folder that holds a checkout. Line numbers are replaced too: every edit
above a line moves it, and the file and the message identify the error without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_ANY: Final = "<*>"
_KEEP: Final = ""


def _one_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_UNIT: Final = _one_of("[nuµμm]?s secs? seconds? mins? minutes? m h hrs? hours? days? [kmgt]i?b? b bytes? %")
_COUNTED: Final = _one_of(
    "of out times passed attempts? retries tests? files? errors? warnings? packages? rows? items? lines? "
    f"problems? tasks? steps? jobs? failures? connections? requests? arguments? records? {_UNIT}"
)
_VARYING: Final = _one_of(
    r"p?pid tid lwp [ug]id process(?:\sid)? thread(?:\sid)? (?:ba|da|z)?sh line ln col(?:umn)? row id ts job "
    "chunk char(?:acter)? offset pos(?:ition)? time(?:stamp)? epoch attempt retry try worker request session "
    "step transaction conn(?:ection)? count size len(?:gth)? bytes total duration elapsed took index seq"
)
_NUMBERED: Final = _one_of(
    "build run job worker thread pool process request task session batch chunk shard partition replica "
    "executor container client agent runner attempt pytest"
)
_CODED: Final = _one_of(
    r"\w*code \w*status \w*error \w*exception err(?:no)? exit(?:ed(?:\swith)?|\svalue)? returned returns? "
    r"rc ret sig(?:nal)? http(?:s|/[0-9](?:\.[0-9])?)? sql\s?state sqlcode ports? hresult msg response got "
    r"listen(?:ing)?\son"
)
_VERSIONED: Final = _one_of(
    "version release edition schema protocol python node nodejs java jdk jre ruby php go gcc clang postgres "
    "postgresql mysql mariadb redis mongo nginx alpine ubuntu debian fedora macos ios android windows cuda"
)
"""Words before a number that varies, that counts names, that is a code, and that is a version."""
_TOP_LEVEL: Final = _one_of("com org net edu io dev app svc lan co de uk eu us fr ch ai")
_FILE: Final = r"(?:[a-z]\w{0,3}|swift|scala|proto|gradle)"
_SOURCE: Final = rf"(?:[\w.$@+-]{{1,80}}\.(?!{_TOP_LEVEL}:){_FILE}|makefile|dockerfile)"
_DATE: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MONTH: Final = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CLOCK: Final = "[0-9]{1,2}(?::[0-9]{2}){2,}(?:[.,][0-9]+)?"
_SPAN: Final = r"[0-9]+(?:\.[0-9]+)?[hms](?![a-z])"
_ZONE: Final = r"(?: ?(?:z|utc|gmt|[+-][0-9]{2}:?[0-9]{2})\b){0,2}"
_IP: Final = r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}"
_NO_VERSION: Final = rf"(?!{_DATE}|[0-9a-f]{{8}}-[0-9a-f]{{4}}-|{_IP}(?![.\w]))"
_PATH: Final = r"[^\s:'\"`()<>,;\[\]|*?=]+(?::[0-9]+)*"
_HTTP_STATUS: Final = "(?:40[0-6]|409|41[0-8]|42[2-9]|451|50[0-8])"
_VERSION: Final = r"(?:[<>=~^]{1,2} ?)?v?[0-9][\w.]*(?:[-+](?:rc|alpha|beta|dev|pre)[.0-9]*)?"
_CODE: Final = r"(?:0x[0-9a-f]{1,8}|[0-9]{1,6}(?:[a-z][0-9a-z]{1,3})?)\b(?![.:][0-9])"
_REQUEST_ID: Final = (
    rf"(?:[\w-]{{1,30}}[-_ ])?{_one_of('request trace span correlation operation transaction build run')}"
    r"[ _-]?id['\"]?\s?[=:#]?\s?['\"]?(?=[^\s\d]{0,40}[0-9])[\w./+=-]+"
)
_SYSTEM: Final = re.compile("/(?:etc|usr|lib|lib64|bin|sbin|opt|var|proc|sys|dev|boot|run)/")
_TEMPORARY: Final = re.compile(
    r"^(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm|run/user)(?:/|$)|[/\\](?:temp|tmp|\.cache|_logs)[/\\]"
)


def error_key(message: str) -> str:
    """Return what identifies the error, in lower case and with single spaces."""
    return _levelled(" ".join(message.lower().split()))


def _levelled(text: str) -> str:
    return _FIRST_RULE.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    replacement = _REPLACEMENTS[str(match.lastgroup)]
    return replacement(match[0]) if callable(replacement) else replacement or match[0]


def _path(matched: str) -> str:
    """Keep a path of the system whole, of others the file and its folder, and nothing of a temporary one."""
    path = re.sub(r"(?::[0-9]+)+$|\([0-9,]+\)$", "", matched)
    if _TEMPORARY.search(path):
        return _ANY
    parts = [part for part in re.split(r"[/\\]", path) if part not in ("", "~")]
    if (path[0] in "/~" or path[1] == ":") and not _SYSTEM.match(path):
        parts = parts[-2:]
    return "/".join(map(_levelled, parts)) + ("" if path == matched else f":{_ANY}")


def _url(matched: str) -> str:
    """Keep host, port and path, and the status behind the URL; parameters vary."""
    url, _, status = matched.partition(" ")
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{'/'.join(map(_levelled, rest.split('/')))} {status}".rstrip()


def _number(matched: str) -> str:
    """Keep what looks like a version: two short numbers, or more than two."""
    parts = matched.lstrip("-").split(".")
    return matched if len(parts) > 2 or (len(parts) == 2 and max(map(len, parts)) <= 2) else _ANY


def _from(pattern: str) -> Callable[[str], str]:
    """Return what replaces everything from the first match of the pattern on."""
    end = re.compile(f"(?:{pattern}).*")
    return lambda found: end.sub(_ANY, found)


_RULES: Final[tuple[tuple[str, str | Callable[[str], str]], ...]] = (
    # Ids and URLs.
    (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", _ANY),
    (r"[a-z][a-z0-9+.]{1,20}://[^\s'\"<>()]+(?: [1-5][0-9]{2}\b)?", _url),
    # Times.
    (rf"{_DATE}(?:[t _][0-9]{{2}}(?:[:_][0-9]{{2}}){{1,2}}(?:[.,_][0-9]+)?{_ZONE})?", _ANY),
    (rf"[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}}(?: {_CLOCK})?|[iwef][0-9]{{4}} {_CLOCK} [0-9]+", _ANY),
    (rf"(?:[a-z]{{3}}, )?[0-9]{{1,2}}[ /]{_MONTH}[ /][0-9]{{4}}(?:[ :]{_CLOCK})?{_ZONE}", _ANY),
    (rf"(?:(?:mon|tue|wed|thu|fri|sat|sun) )?{_MONTH} [0-9]{{1,2}},? {_CLOCK}{_ZONE}(?: [0-9]{{4}})?", _ANY),
    (rf"{_CLOCK}(?: ?[ap]m\b)?{_ZONE}|[0-9]{{1,2}}:[0-9]{{2}} ?[ap]m\b|\[ ?[0-9]+\.[0-9]+\]", _ANY),
    # What its name or its position shows to vary.
    (_REQUEST_ID, _from(r"(?<=id)\W+|(?<=id)\w")),
    (
        rf"{_VARYING}(?:['\"]?\s?[=:#(\[]\s?['\"]?| )(?!{_DATE})-?[0-9][\w.-]*(?: ?{_UNIT}\b)?",
        _from("-?[0-9]"),
    ),
    (rf"{_NUMBERED}(?:[-_.#][0-9]+)+\b", _from("[0-9]")),
    (r"(?:at|address|addr|pointer) (?:address )?0x[0-9a-f]+\b|\+0x[0-9a-f]+\b", _ANY),
    (rf"from {_IP}(?::| port )[0-9]+|{_IP}:[0-9]+ ?->|[0-9]+/[0-9]+\b(?!/)", _ANY),
    (r"\([0-9]+(?:, ?[0-9]+)+\)|<[0-9]+(?:\.[0-9]+)+>", _ANY),
    # Files and hosts.
    (rf"(?<![\w/])~?/{_PATH}|[a-z]:\\{_PATH}", _path),
    (
        rf"(?:[\w.@+-]{{1,80}}/)?{_IP}:[0-9]{{2,5}}\b|\[[0-9a-f:]{{2,40}}\]:[0-9]{{2,5}}\b",
        lambda found: _ANY + found[found.rindex(":") :],
    ),
    (r"(?:[\w.@+-]{1,80}/){1,40}[\w.@+-]{1,80}(?::[0-9]+)*(?!\.?\w)", _path),
    (rf"{_SOURCE}(?:(?::[0-9]+)+\b|\([0-9]+(?:,[0-9]+)?\))", _path),
    # What identifies.
    (r"0x[8c][0-9a-f]{7}\b|(?:killed|fault|trap|aborted|failed): [0-9]{1,3}\b(?![.:])", _KEEP),
    (
        rf"{_CODED}['\"]?(?: (?:is|was|of))?\s?[=:#]?\s?['\"(\[]?-?{_CODE}(?! ?{_COUNTED}\b)",
        _KEEP,
    ),
    (rf"{_VERSIONED}['\"]?(?: is)?(?:[ =:]{{1,2}}|[/@-])?['\"]?{_NO_VERSION}{_VERSION}", _KEEP),
    (r"(?:[<>~=!]=|~>|\^|@) ?v?[0-9][\w.]*|\(-?[0-9]{1,3}\)|\([0-9]{1,5}(?=[:,] ?['\"a-z])", _KEEP),
    (r"(?<![\w\])}>])(?:::)?:[0-9]{2,5}\b(?![.:]?[0-9])", _KEEP),
    # Addresses, ids and amounts.
    (rf"{_IP}(?![.\w])", _ANY),
    (r"\[?(?:(?:[0-9a-f]{1,4}:){5,7}[0-9a-f]{1,4}|[0-9a-f]{3,4}:[0-9a-f:]{0,30}:[0-9a-f]{1,4})\b\]?", _ANY),
    (r"tmp[._-]?[a-z0-9_]{0,40}[0-9][a-z0-9_]*\b|0x[0-9a-f]+\b", _ANY),
    (
        r"(?=[0-9a-f]{0,80}[0-9])(?=[0-9a-f]{0,80}[a-f])[0-9a-f]{7,}\b(?:-[a-z0-9]{5}\b)?|(?=[a-z]{0,80}[0-9])[a-z0-9]{20,}\b",
        _ANY,
    ),
    (rf"(?:{_SPAN} ?)*{_SPAN}|-?[0-9]+(?:[.,][0-9]+)* ?{_UNIT}(?![\w.])", _ANY),
    (rf"{_HTTP_STATUS}\b(?![.,:]?[0-9])", _KEEP),
    # Names, and the numbers that are left.
    (r"[-.](?=[a-z_]*[0-9])[a-z0-9_]{8}(?=\.(?:chunk\.)?(?:[cm]?js|css)\b)", _ANY),
    (
        r"[a-z0-9]{1,60}(?:-[a-z0-9]{1,60}){0,8}-(?=[a-z]{0,9}[0-9])[a-z0-9]{8,10}-[a-z0-9]{5}\b",
        lambda found: found.rsplit("-", 2)[0],
    ),
    (r"[a-z_][\w.]{0,80}:(?:2[1-5]|53|80|[0-9]{3,5})\b(?![.:]?[0-9])", _KEEP),
    (rf"[^\W\d]\w*(?:\.[0-9]+(?!\w))*(?:-(?!{_DATE})[0-9]+(?:\.[0-9]+)*\b)*", _KEEP),
    (r"-?[0-9]+(?:\.[0-9]+)+-(?:rc|alpha|beta|dev|pre)[.0-9]*", _KEEP),
    (r"-?[0-9]+(?:\.[0-9]+)*(?!\w)", _number),
    (r"[0-9]\w*", _KEEP),
)
_REPLACEMENTS: Final = {f"rule{at}": replacement for at, (_, replacement) in enumerate(_RULES)}
_FIRST_RULE: Final = re.compile(
    "|".join(f"(?P<rule{at}>{pattern})" for at, (pattern, _) in enumerate(_RULES))
)
"""At each position the first rule that matches decides. What it keeps, no later rule sees."""
