"""Whether entries are found by their own words: each by a word that no other entry has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from unittest.mock import patch

from agentctx.service.rag import finding
from agentctx.service.rag.finding import SearchInput
from agentctx.service.rag.question import Question
from agentctx.service.rag.retrieval import ServingModel
from agentctx.service.rag.service import RAGService
from agentctx.service.rag.word_match import QuestionWords
from agentctx.storage.base import Storage
from agentctx.storage.search import Filter, Steps, TermCounts, WordResults
from agentctx.wire.protocol import DEFAULT_NAMESPACE

PAGE = 1_000
SOUGHT = 5
"""Entries that are sought at an inspection."""
FEW = 20
_CONSONANTS = "bcdfghjkmnprtvwxz"


def word_of(writer: int, number: int) -> str:
    """Return a word of its own for a text: no stemmer changes it, and it has no parts."""
    return f"zz{_in_letters(number)}q{_in_letters(writer)}"


def _in_letters(number: int) -> str:
    rest, letter = divmod(number, len(_CONSONANTS))
    return (_in_letters(rest) if rest else "") + _CONSONANTS[letter]


def own_words(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield entries with a word that no other of these texts has, newest entry first."""
    words = {entry: text.split() for entry, text in texts.items()}
    having = Counter(word for each in words.values() for word in set(each))
    for entry in sorted(words, reverse=True):
        own = next((word for word in words[entry] if having[word] == 1 and _is_plain(word)), None)
        if own is not None:
            yield entry, own


async def unfound(
    storage: Storage, texts: Mapping[str, str], *, sought: int = SOUGHT, namespace: str = DEFAULT_NAMESPACE
) -> list[str]:
    """Return which of the newest entries are not the first that their own word finds without a model."""
    rag = RAGService(storage, None, lambda: ServingModel(None))
    broken: list[str] = []
    for entry, word in islice(own_words(texts), sought):
        question = Question(text=word, filter=Filter(namespace=namespace), limit=FEW, order="relevance")
        found = [hit.entry.id for hit in (await rag.retrieve(question)).hits]
        broken += _misplaced(entry, word, found)
    return broken


async def unfound_in(storage: Storage, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
    """Return `unfound` for what a listing of the namespace shows."""
    return await unfound(storage, await texts_in(storage, namespace), namespace=namespace)


async def texts_in(storage: Storage, namespace: str) -> dict[str, str]:
    """Return the contents that a listing of the namespace shows, by id."""
    texts: dict[str, str] = {}
    before: str | None = None
    while True:
        page, before = await storage.entries.list_entries(
            Filter(namespace=namespace), limit=PAGE, before=before
        )
        texts |= {entry.id: entry.content for entry in page}
        if before is None:
            return texts


def no_words_in_questions() -> AbstractContextManager[object]:
    """Break the program: questions do not use the words, which are all in the index."""

    search = finding.by_words

    def without_words(asked: SearchInput) -> Steps[WordResults]:
        yield from search(asked)
        return WordResults([], TermCounts(0, {}))

    return patch.object(finding, "by_words", without_words)


def _misplaced(entry: str, word: str, found: Collection[str]) -> Iterable[str]:
    if entry not in found:
        yield f"words: {entry} is not found by {word!r}"
    elif next(iter(found)) != entry:
        yield f"words: {entry} is not the first that {word!r} finds"


def _is_plain(word: str) -> bool:
    one_case = word.isascii() and ((word.isalpha() and word.islower()) or word.isdigit())
    return one_case and QuestionWords(word).match([word]).total == 1
