"""Whether the model knows the language that most of the memory is in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from agentctx.doctor.check import Check, Finding, passed, skipped, warned
from agentctx.doctor.provider import OFF, Embedding
from agentctx.embedding_providers.embedded.provider import DEFAULT_MODEL
from agentctx.storage.search import SearchStorage
from agentctx.storage.words import STOP_WORDS

SAMPLE: Final = 200
FEWEST: Final = 20
"""Texts of a known language that a verdict needs."""
MOST_FOREIGN: Final = 0.5
FOREIGN_LETTERS: Final = 0.3
"""Share of letters that are not Latin from which a text is not English."""
LEAST_HITS: Final = 2
_WORD = re.compile(r"[^\W\d_]+")
# The commonest words of German, Spanish, French, Italian, Portuguese, Dutch, the Scandinavian languages,
# Polish, Czech, Romanian, Hungarian, Finnish, Turkish, Indonesian and Vietnamese that are not English words.
_COMMON_ELSEWHERE: Final = frozenset(
    """
    der das und ist nicht ein eine einen mit für auf dem den des wir sie ich wird werden bei nach auch
    nur oder aber wenn von zu zum zur sich als wie immer el la los las que y en una por con para se es
    del como su más está son al le les et pas une dans qui sur avec nous vous ce cette au aux du ne sont
    il lo gli che di è non per della dei nel anche o os um uma em não da dos das mais são het een van
    niet zijn voor met op dat wordt naar och att det som är inte ett på för av til og er ikke w na nie
    się jest że od je že v și în nu pe este cu és nem egy hogy az ja ei että ve bir bu için ile değil
    yang dan untuk dengan tidak ini itu và của là không cho các có được
    """.split()  # noqa: SIM905 - a literal would take a line a word
)


def language_check(storage: SearchStorage, embedding: Embedding) -> Check:
    """Looks at a sample of the chunks, where the model is the embedded one, which knows English."""

    async def run() -> Finding:
        provider = embedding.provider
        if provider is None:
            return skipped(OFF)
        if provider.model != DEFAULT_MODEL:
            return skipped(f"which languages {provider.model} knows is not known here")
        return judge_language([chunk.text for chunk in await storage.sample_chunks(SAMPLE)])

    return Check(id="embedding.language", run=run)


def judge_language(texts: Sequence[str]) -> Finding:
    known = [verdict for verdict in map(is_english, texts) if verdict is not None]
    if len(known) < FEWEST:
        return skipped("too few texts in sentences to tell their language")
    foreign = 1 - sum(known) / len(known)
    if foreign <= MOST_FOREIGN:
        return passed(
            f"{1 - foreign:.0%} of {len(known)} texts looked at are in English, which the model knows"
        )
    return warned(
        f"{foreign:.0%} of {len(known)} texts looked at are not in English, and the model knows no other",
        detail="keyword search finds them; search by meaning does not tell them apart well",
        hint="Set embedding.next to a multilingual model, for example ollama with bge-m3, then run "
        "`agentctx reembed`.",
    )


def is_english(text: str) -> bool | None:
    """By script and common words; None for what has too few of them: code, names, figures."""
    words = _WORD.findall(text.lower())
    letters = "".join(words)
    if letters and sum(not _is_latin(letter) for letter in letters) > FOREIGN_LETTERS * len(letters):
        return False
    english = sum(word in STOP_WORDS for word in words)
    foreign = sum(word in _COMMON_ELSEWHERE for word in words)
    if max(english, foreign) < LEAST_HITS:
        return None
    return english >= foreign


def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")
