from __future__ import annotations

from benchmarks.texts import TextSource, common_words


def test_the_same_seed_gives_the_same_texts_and_another_others() -> None:
    first, again, other = TextSource(1), TextSource(1), TextSource(2)
    assert first.text(500) == again.text(500)
    assert first.text(500) == again.text(500)
    assert first.text(500) != other.text(500)


def test_a_text_is_as_long_as_asked_or_up_to_a_word_less() -> None:
    longest = max(map(len, common_words())) + 2
    for characters in (100, 400, 1_000):
        text = TextSource(3).text(characters)
        assert characters - longest <= len(text) <= characters
        assert text == text.strip()


def test_texts_and_questions_do_not_repeat() -> None:
    source = TextSource(4)
    assert len({source.text(300) for _ in range(200)}) == 200
    assert len({source.question() for _ in range(1_000)}) == 1_000


def test_words_follow_zipf_over_thousands() -> None:
    words = TextSource(5).text(200_000).lower().replace(",", "").replace(".", "").split()
    ranks = {word: rank for rank, word in enumerate(common_words())}
    assert all(word in ranks for word in words)
    assert 0.3 < sum(ranks[word] < 100 for word in words) / len(words) < 0.7
    assert len(set(words)) > 4_000


def test_a_name_is_in_no_text() -> None:
    source = TextSource(6)
    names = {source.name() for _ in range(100)}
    assert len(names) == 100
    assert not names & set(common_words())
