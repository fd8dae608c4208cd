"""Derive the queries of a prompt: none, its whole text, or also the lines around a paste. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from agentctx.service.rag.word_lists import lists
from agentctx.storage.stop_words import STOP_WORDS, is_grammar, stop_words_of

FEW_WORDS = 8
"""A prompt of at most this many words asks about what it names, unless it is a task: "lead time VX-500"."""
SHORT_WORDS = 40
"""A prompt of at most this many words on one line is one question."""
FIRST_WINDOW = 2_000
"""Number of characters of a long prompt that are embedded; a model reads no more at once."""
LONGEST_LINE = 300
"""Maximum characters of a line of prose in a query."""
LONGEST_SMALL_TALK = 200
"""Maximum characters of a prompt without content."""
MAX_REPETITION = 8
"""How often the words of a long prompt may be repeated on average."""
MIN_LINE_WORDS = 4
MIN_QUESTION_WORDS = 2
"""Minimum words of a line of prose, and of a sentence that ends in a question mark."""
MAX_QUESTIONS = 3
"""Maximum number of questions of a short prompt that are also searched one by one."""
MIN_PARTS, MAX_PARTS = 3, 6
"""How many parts with a name make a prompt a compound one, and how many of them are asked one by one."""
MIN_PROSE = 0.82
"""Minimum share of letters, spaces and punctuation in a line of prose."""

_WORD = re.compile(r"""[^\s.,;:!?¡¿"()\[\]…।،؟。、\uff0c\uff01\uff1f·*_~-]+""")
_LONG_WORD = re.compile(r"[^\W\d_]{2,}")
# Chinese, Japanese and Thai write no spaces between words.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
_CODE = re.compile(
    r"[;{}]\s*$|^\s*(?:#|//|--|\$ |>>> |\d+\s*[|:]|import [\w.]+(?: as \w+)?$|from \S+ import "
    r"|def \w+\(|class \w+[(:]|return\b.*[()\[\]=+*]|at \S+[(:]|File \S+[,:]|Traceback |Caused by: )"
)
# Quoted mail, its header, tables, and the lines of a diff.
_QUOTED = re.compile(
    r"^(?:>|\||[+-](?=[^\s\d])|@@|(?:from|to|cc|subject|date|sent|von|an|betreff|de|para|asunto|objet)\s*:"
    r"|.*\b(?:wrote|schrieb|escribi\u00f3|\u00e9crit|escreveu|scritto)\b.*:$)",
    re.IGNORECASE,
)
_FENCE = "```"
_SET_OFF = re.compile(r"\n\s*\n|```\w*")
_EMOTICON = re.compile(r"(?<!\S)(?:[:;=8x][-o^']?[)(dpo/\\|*3]+|<3+|\^_*\^|o_o|\\o/|t_t)(?!\S)")
_STRETCHED = re.compile(r"(\w)\1{2,}")
_ASKS = re.compile(r"[?\uff1f\u061f]|\b(?:which|what|when|where|who|whose|whom)\b", re.IGNORECASE)
_INTERROGATIVE = "what|when|where|which|who|whose|whom|why|how"
_AUXILIARY = "is|are|was|were|does|do|did|can|could|may|must|would|has|have|had|any"
_ASKING = re.compile(
    rf"\?\s*$|^(?:(?:and|so|but|then|hey|hi|remember),? )?(?:{_INTERROGATIVE}|{_AUXILIARY}|summary|anything"
    rf"|(?:tell|remind|give|show) me|explain|describe|list|find)(?:'s)?\b"
    rf"|[,:;-] (?:(?:in|by|until|since) )?(?:{_INTERROGATIVE}|{_AUXILIARY})(?:'s)?\b"
    r"|^(?:in|on|at|by|for|from|to|until|since|after|through|under|with) (?:what|which|when|whom|whose)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f])")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+)\w")


class SmallTalk(NamedTuple):
    """What says nothing about a topic. `topics` do in a question; a name may follow one of `vocatives`."""

    words: frozenset[str]
    topics: frozenset[str]
    vocatives: frozenset[str]
    phrases: re.Pattern[str]
    unspaced: re.Pattern[str]


@cache
def _task() -> re.Pattern[str]:
    verbs = "|".join(lists("names")["tasks"].split())
    polite = r"please|pls|now|then|ok|(?:can|could|would|will) you|let's|(?:we|i) (?:need|want) to|help me"
    decides = r"(?<!what )(?<!how )\b(?:should|shall) (?:i|we|he|she|they)\b"
    return re.compile(rf"^(?:(?:{polite}),? )*(?:{verbs})\b|{decides}", re.IGNORECASE)


@cache
def _small_talk() -> SmallTalk:
    text = files("agentctx.service.rag").joinpath("small_talk.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0] for line in text.casefold().splitlines()]
    marked = {word for line in lines for word in line.removeprefix("@").split()}
    topics = {word.rstrip("?") for word in marked if word.endswith("?")}
    phrases = {word.replace("_", " ") for word in marked if "_" in word}
    words = {word for word in marked if "_" not in word} - {f"{topic}?" for topic in topics} - topics
    return SmallTalk(
        words=frozenset(words),
        topics=frozenset(topics),
        vocatives=frozenset(word for line in lines if line.startswith("@") for word in line[1:].split()),
        phrases=re.compile(rf"(?<!\w)(?:{_longest_first(phrases)})(?!\w)"),
        unspaced=re.compile(_longest_first({word for word in words if _UNSPACED.search(word)})),
    )


def _longest_first(phrases: set[str]) -> str:
    return "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))


def not_looked_up(prompt: str, *, everything: bool = False) -> str | None:
    """Return why nothing is looked up for a prompt; None if something is. `everything` needs no subject."""
    if not prompt.strip():
        return "the text is empty: nothing is looked up"
    if everything or has_content(prompt):
        return None
    if not any(map(str.isalnum, prompt)):
        return "the text has no words: nothing is looked up"
    if _ASKS.search(prompt):
        return "the text is a question without a topic: nothing is looked up"
    return "the text is an acknowledgement, not a question: nothing is looked up"


def has_content(prompt: str) -> bool:
    """Return whether a prompt has a subject, unlike "thanks" and "ok, go on" in the languages of the list.

    Anything with a digit has one: it may be a ticket number.
    """
    if len(prompt) > LONGEST_SMALL_TALK:
        return True
    folded = prompt.casefold().replace("\u2019", "'").strip()
    # "yesss" and "cooool" are read as "yes" and "cool".
    spellings = {_STRETCHED.sub(kept, folded) for kept in (r"\1", r"\1\1")}
    words = min(map(_words_with_content, spellings), key=len)
    return bool(words) and not (len(words) == 1 and _is_name(words[0], prompt))


def _words_with_content(folded: str) -> list[str]:
    """Return the words that are no small talk."""
    talk = _small_talk()
    empty = [stop_words_of(folded), talk.words]
    if not _ASKS.search(folded):
        empty.append(talk.topics)
    for pattern in (_EMOTICON, talk.phrases, talk.unspaced):
        folded = pattern.sub(" ", folded)
    words = (match[0].strip("'") for match in _WORD.finditer(folded))
    return [word for word in words if not any(word in each for each in empty) and _says_something(word)]


def _says_something(word: str) -> bool:
    """Return whether a word has letters or digits, and is more than grammar if it is Chinese or Japanese."""
    if _UNSPACED.search(word):
        pairs = [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
        return not all(map(is_grammar, pairs))
    return any(char.isalnum() for char in word)


def _is_name(word: str, prompt: str) -> bool:
    """Return whether a prompt only thanks or greets someone of this name: "Thanks, Anna!"."""
    written = re.search(rf"[\w,] ({re.escape(word)})\b", prompt, re.IGNORECASE)
    if written is None or not written[1].istitle() or _ASKS.search(prompt):
        return False
    return not _small_talk().vocatives.isdisjoint(_WORD.findall(prompt.casefold()))


def queries_of(prompt: str) -> tuple[str, ...]:
    """Return the texts to search for: at least one, the whole prompt first.

    A short prompt with several questions also yields each of them. A long one yields its beginning, its first
    and its last line of prose, and its last question, because a question next to a paste would be lost
    among the words of the paste.
    """
    text = prompt.strip()
    if is_short(text):
        questions = list(_last_questions(text))[::-1]
        return tuple(dict.fromkeys([text, *(questions[:MAX_QUESTIONS] if len(questions) > 1 else ())]))
    lines = _own_lines(text)
    first, last = next(filter(is_prose, lines), ""), next(filter(is_prose, reversed(lines)), "")
    around = [first[:LONGEST_LINE], last[-LONGEST_LINE:]] if first else [*_requests(text)]
    asked = next((found for line in reversed(lines) if _is_text(line) for found in _last_questions(line)), "")
    return _without_repetition(text[:FIRST_WINDOW], tuple(filter(None, dict.fromkeys([*around, asked]))))


def parts_of(prompt: str) -> tuple[str, ...]:
    """Return the parts of a short English prompt that names several things; none of any other prompt.

    A part is what stands between stop words or punctuation marks, and has a name: a capital, except at the
    beginning of a sentence. For the prompt as a whole, each of the things would be a small part of it.
    """
    if not is_short(prompt) or stop_words_of(prompt) != STOP_WORDS:
        return ()
    text = _SENTENCE_START.sub(lambda found: found[0].lower(), prompt.strip())
    parts = (part.strip() for part in _between_parts().split(text))
    named = tuple(dict.fromkeys(part for part in parts if part != part.lower()))
    return named[:MAX_PARTS] if len(named) >= MIN_PARTS else ()


@cache
def _between_parts() -> re.Pattern[str]:
    in_word = r"[\w'\u2019/@-]"
    words = rf"(?<!{in_word})(?<!\.)(?:{_longest_first(set(STOP_WORDS))})(?!{in_word}|\.\w)"
    return re.compile(rf"{words}|[^\w\s.'\u2019/@-]+|\.(?!\w)", re.IGNORECASE)


def _without_repetition(first: str, others: Sequence[str]) -> tuple[str, ...]:
    """Return the texts; if the first repeats a few words, these once, and the others that have more words.

    Repetitions would cost without meaning more.
    """
    words = first.split()
    distinct = dict.fromkeys(words)
    if MAX_REPETITION * len(distinct) >= len(words):
        return tuple(dict.fromkeys([first, *others]))
    return " ".join(distinct), *(text for text in others if not distinct.keys() >= set(text.split()[1:-1]))


def own_words(prompt: str) -> str:
    """Return what the writer of a prompt says: a short one is whole, of a longer one the lines of prose."""
    text = prompt.strip()
    return text if is_short(text) else "\n".join(line for line in _own_lines(text) if is_prose(line))


def focus_of(text: str) -> str:
    """Return the sentences that ask about what they name, without those in which a name merely stands.

    Beside a paste, names say where something happened.
    """
    if not is_short(text := text.strip()):
        return ""
    sentences = [each for each in _SENTENCE_END.split(text) if not _task().search(each)]
    if sentences == [text] and len(text.split()) <= FEW_WORDS:
        return text
    return "\n".join(each for each in sentences if _ASKING.search(each))


def is_short(text: str) -> bool:
    """Return whether a prompt is one question: few words on one line."""
    return "\n" not in text and len(text.split()) <= SHORT_WORDS and len(text) <= FIRST_WINDOW


def is_prose(line: str) -> bool:
    """Return whether a line is natural language, not code, a log or a table, by its beginning."""
    beginning = line[:FIRST_WINDOW]
    return _has_words(beginning, MIN_LINE_WORDS) and _is_text(beginning)


def _is_text(line: str) -> bool:
    line = line[:FIRST_WINDOW]
    letters = sum(char.isalpha() or char.isspace() or char in "'\u2019,.?!" for char in line)
    return letters / len(line) > MIN_PROSE and not _CODE.search(line)


def _has_words(text: str, least: int) -> bool:
    return len(_LONG_WORD.findall(text)) >= least or len(_UNSPACED.findall(text)) >= max(least, 4)


def _last_questions(line: str) -> Iterator[str]:
    """Yield the sentences of a line that ask something, the last one first."""
    for sentence in map(str.strip, reversed(_SENTENCE_END.split(line))):
        is_asking = sentence.endswith(_QUESTION_MARKS) and _has_words(sentence, MIN_QUESTION_WORDS)
        if is_asking and has_content(sentence):
            yield sentence[-LONGEST_LINE:]


def _requests(text: str) -> Iterator[str]:
    """Yield the few words before or after a paste, set off by a blank line or a fence: "Commit this."."""
    blocks = [block.strip() for block in _SET_OFF.split(text) if block.strip()]
    for block in dict.fromkeys((blocks[-1], blocks[0])) if len(blocks) > 1 else ():
        if (
            "\n" not in block
            and _has_words(block, MIN_QUESTION_WORDS)
            and _is_text(block)
            and has_content(block)
        ):
            yield block


def _own_lines(text: str) -> list[str]:
    """Return the lines that the writer of a prompt did not paste or quote, as far as the markup shows."""
    parts = text.split(_FENCE)
    unfenced = "\n".join(parts[::2]) if len(parts) % 2 else text
    lines = (line.strip() for line in unfenced.splitlines())
    return [line for line in lines if line and not _QUOTED.search(line)]
