"""Redacts secrets in a text. The result depends only on text and rules, unless the time limit is exceeded.

Each secret is replaced by `[redacted:<kind>]`. These placeholders divide a text into pieces that are searched
separately; the pieces that remain around a new placeholder are searched again. So the result contains no
secret that the rules know, and redacting it again changes nothing. The `Redactor` applies the daemon's mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from agentctx.config.schema import RedactionSettings
from agentctx.text.redaction.encoded import decoded, has_hex_pairs, has_long_run
from agentctx.text.redaction.rewrite import is_undisguised, views
from agentctx.text.redaction.rules import CandidateRule, SecretRules, SecretSpan, load_rules
from agentctx.text.redaction.time_limit import TimeLimit

MAX_PASSES: Final = 4
"""A piece that still reveals secrets after this many passes is redacted whole, to keep the time linear."""

MAX_ENCODINGS: Final = 3
"""How many levels of nested Base64 are decoded."""

_PLACEHOLDER: Final = re.compile(r"\[redacted:[a-z0-9-]{1,63}\]")


class SecretFinding(NamedTuple):
    """The kind and position of a secret in a text, in code points, without the secret itself."""

    kind: str
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class RedactedText(NamedTuple):
    """A text with its secrets redacted, and the findings in order of position."""

    text: str
    findings: tuple[SecretFinding, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind once, in the order found."""
        return tuple(dict.fromkeys(finding.kind for finding in self.findings))


def redact(text: str, rules: SecretRules) -> RedactedText:
    """Redact the secrets of a text; return the same object if there are none.

    Raises:
        RedactionTimedOut: an operator's rule did not finish, so a secret might remain.
    """
    findings = find(text, rules)
    if not findings:
        return RedactedText(text, ())
    parts, at = [], 0
    for finding in findings:
        parts += [text[at : finding.start], f"[redacted:{finding.kind}]"]
        at = finding.end
    return RedactedText("".join([*parts, text[at:]]), findings)


class _Piece(NamedTuple):
    """A part of the text between placeholders."""

    span: SecretSpan
    passes: int
    candidates: Sequence[CandidateRule]


def find(text: str, rules: SecretRules) -> tuple[SecretFinding, ...]:
    """Return the secrets found in a text, in order of position, without overlaps.

    Raises:
        RedactionTimedOut: an operator's rule did not finish.
    """
    has_run = has_long_run(text)
    possible = rules.candidates(text, has_long_run=has_run)
    if not (possible or has_run or has_hex_pairs(text)) and is_undisguised(text):
        return ()  # most texts
    limit = TimeLimit()
    present = _PLACEHOLDER.finditer(text) if "[redacted:" in text else ()
    spans = _between(SecretSpan(0, len(text)), (SecretSpan(*match.span()) for match in present))
    pieces = [_Piece(span, 0, rules.candidates(text[span.start : span.end])) for span in spans]
    findings: list[SecretFinding] = []
    while pieces:
        (start, end), passes, candidates = pieces.pop()
        secrets = _find_in_piece(text[start:end], rules, candidates, limit)
        if not secrets:
            continue
        if passes == MAX_PASSES:
            secrets = [SecretFinding(secrets[0].kind, 0, end - start)]
        secrets = [SecretFinding(secret.kind, start + secret.start, secret.length) for secret in secrets]
        findings += secrets
        redacted = (SecretSpan(secret.start, secret.end) for secret in secrets)
        for rest in _between(SecretSpan(start, end), redacted):
            narrowed = rules.narrow(candidates, text[rest.start : rest.end])
            pieces.append(_Piece(rest, passes + 1, narrowed))
    return tuple(sorted(findings, key=lambda finding: finding.start))


def _between(whole: SecretSpan, cuts: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the parts of a span that remain between the cuts, which must be sorted."""
    left, at = [], whole.start
    for cut in cuts:
        left.append(SecretSpan(at, cut.start))
        at = cut.end
    return [span for span in (*left, SecretSpan(at, whole.end)) if span.start < span.end]


def _find_in_piece(
    piece: str, rules: SecretRules, candidates: Sequence[CandidateRule], limit: TimeLimit
) -> list[SecretFinding]:
    matches: list[tuple[int, int, int, str]] = []
    for view in views(piece):
        if view.chain:
            candidates = (rules.vendor_rules if view.is_wrapped else rules).candidates(view.text)
        for rank, first, last, kind in (
            *_ranked(view.text, candidates, limit),
            *_encoded(view.text, rules, limit),
        ):
            start, end = view.original(first, last)
            matches.append((start, rank, end, kind))
    return _join_overlaps(sorted(set(matches))) if matches else []


def _ranked(
    text: str, candidates: Sequence[CandidateRule], limit: TimeLimit
) -> list[tuple[int, int, int, str]]:
    return [
        (rank, span.start, span.end, rule.id)
        for rank, rule, keywords in candidates
        for span in rule.spans(text, keywords, limit)
    ]


def _encoded(text: str, rules: SecretRules, limit: TimeLimit) -> Iterator[tuple[int, int, int, str]]:
    """Find runs of Base64 or hexadecimal digits that contain a secret; the whole run is the finding."""
    for run in decoded(text):
        if kind := _kind_in(run.text, rules.vendor_rules, limit):
            yield len(rules), run.start, run.end, kind


def _kind_in(text: str, rules: SecretRules, limit: TimeLimit, depth: int = 1) -> str | None:
    if matches := _ranked(text, rules.candidates(text), limit):
        return matches[0][3]
    if depth == MAX_ENCODINGS:
        return None
    kinds = (_kind_in(run.text, rules, limit, depth + 1) for run in decoded(text))
    return next((kind for kind in kinds if kind), None)


def _join_overlaps(matches: Sequence[tuple[int, int, int, str]]) -> list[SecretFinding]:
    """Join overlapping findings, keeping the kind with the best rank."""
    joined: list[SecretFinding] = []
    best = 0
    for start, rank, end, kind in matches:
        if joined and start < joined[-1].end:
            last = joined[-1]
            name, best = (kind, rank) if rank < best else (last.kind, best)
            joined[-1] = SecretFinding(name, last.start, max(end, last.end) - last.start)
        else:
            joined.append(SecretFinding(kind, start, end - start))
            best = rank
    return joined


_MAX_CACHED_NAMES: Final = 4_096
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts secrets in texts. With `refuses`, entries that contain secrets must not be saved."""

    rules: SecretRules
    refuses: bool = False
    _clean_names: set[bytes] = field(default_factory=set, init=False, repr=False, compare=False)
    """Digests rather than names, since a name may have to be forgotten."""

    def __call__(self, text: str) -> RedactedText:
        return redact(text, self.rules)

    def of_name(self, name: str) -> RedactedText:
        """Redact a recurring name, such as a session's; names without secrets are cached."""
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        if digest in self._clean_names:
            return RedactedText(name, ())
        redacted = self(name)
        if not redacted.findings:
            if len(self._clean_names) >= _MAX_CACHED_NAMES:
                self._clean_names.clear()
            self._clean_names.add(digest)
        return redacted


no_redaction: Final = Redactor(SecretRules(()))
"""Leaves every text unchanged."""


def create_redactor(settings: RedactionSettings) -> Redactor:
    """Create the redactor for these settings.

    Raises:
        ConfigInvalid: the rules cannot be used.
    """
    if settings.mode == "off":
        return no_redaction
    rules = load_rules(settings.rules_file, disabled=settings.disabled)
    return Redactor(rules, refuses=settings.mode == "reject")
