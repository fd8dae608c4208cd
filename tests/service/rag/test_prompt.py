"""The queries of a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.rag.prompt import (
    FIRST_WINDOW,
    MAX_PARTS,
    has_content,
    is_prose,
    not_looked_up,
    parts_of,
    queries_of,
)

PASTE = "\n".join(f"    result[{n}] = compute(values[{n}], scale={n});" for n in range(90))


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            "thanks!",
            "ok, go on",
            "Please continue.",
            "That looks great, do it again",
            "ok do it",
            "lgtm, ship it",
        ),
        *("yesss", "cooool", "sgtm", "aight bet", "thx :)", "<3 thanks", "ty!! 🙏", "👍", "...", "", "ok?"),
        *("no, the other one", "hmm no, try again but shorter", "Very well, please proceed accordingly."),
        *("you're the best", "sounds like a plan", "Thanks, Anna!", "thank you Claude", "danke dir, Jonas"),
        *(
            "danke, mach weiter",
            "ne, nochmal und kürzer",
            "passt so, weiter",
            "vielen Dank, das sieht gut aus",
        ),
        *("gracias, sigue así", "vale, hazlo", "no, otra vez por favor", "perfecto, muchas gracias"),
        *("merci, continue comme ça", "ok ça marche", "oui vas-y", "non, encore une fois"),
        *("obrigado, pode continuar", "isso mesmo", "beleza, manda ver", "de novo, mais curto"),
        *("спасибо, продолжай", "да, давай так", "ещё раз, покороче", "нет, не так"),
        *("谢谢 请继续。", "可以\uff0c就这样", "不对\uff0c再来一次", "没问题\uff0c开始吧"),
        *("ありがとう、続けてください。", "はい、それでお願いします", "もう一回やって", "違います、もう一度"),
        *("शुक्रिया", "ठीक है, जारी रखो", "हाँ, कर दो", "धन्यवाद", "শুধু ধন্যবাদ"[5:], "ঠিক আছে, করো"),
        *("شكرا، تابع من فضلك", "تمام، أكمل", "شکریہ", "ٹھیک ہے، جاری رکھیں"),
        *("terima kasih, lanjut", "oke lanjut", "coba lagi", "감사합니다, 계속해 주세요", "다시 해줘"),
        *("grazie mille, perfetto", "teşekkürler, devam et", "dziękuję, dalej", "bedankt, ga door"),
    ],
)
def test_a_prompt_without_content_asks_nothing(prompt: str) -> None:
    assert not has_content(prompt)
    assert not_looked_up(prompt)
    assert not_looked_up(prompt, everything=True) is None or not prompt


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("thanks", "the text is an acknowledgement, not a question"),
        ("Thanks, Anna!", "the text is an acknowledgement, not a question"),
        ("what is it?", "the text is a question without a topic"),
        ("ok?", "the text is a question without a topic"),
        ("👍 ...", "the text has no words"),
        (" \n\t", "the text is empty"),
        (" " * 300, "the text is empty"),
        ("when do we ship?", None),
        ("```\nx = 1\n```", None),
        ("/clear", None),
    ],
)
def test_what_is_not_looked_up_has_its_own_reason(prompt: str, reason: str | None) -> None:
    assert not_looked_up(prompt) == (reason and f"{reason}: nothing is looked up")


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            "thanks, now deploy it",
            "42",
            "continue with the invoice",
            "会议改到星期四了",
            "Rechnung?",
            "mkdir",
        ),
        *(
            "which port?",
            "which version?",
            "when do we ship?",
            "who approves?",
            "VAT?",
            "deploy?",
            "rate limit",
        ),
        *(
            "¿qué puerto?",
            "quel port ?",
            "qual porta?",
            "какой порт?",
            "端口是多少\uff1f",
            "ポートは\uff1f",
            "포트 번호?",
        ),
        *(
            "कौन सा पोर्ट?",
            "কোন পোর্ট?",
            "أي منفذ؟",
            "پورٹ کون سا ہے؟",
            "pelabuhan mana?",
            "wo ist der schlüssel",
        ),
        *(
            "hi Anna, which room",
            "thanks, where is Anna",
            "Thanks. Deploy!",
            "danke. Rechnung?",
            "Hi, budget?",
        ),
        "thanks " * 40,
    ],
)
def test_a_question_of_one_word_is_asked(prompt: str) -> None:
    assert has_content(prompt)


def test_a_short_prompt_is_one_question() -> None:
    assert queries_of("  When do deploys happen? ") == ("When do deploys happen?",)


def test_a_prompt_that_names_several_things_has_parts() -> None:
    assert parts_of("Move the Grafana boards, the nightly Kafka job and the iOS builds to Lyon.") == (
        "Grafana boards",
        "nightly Kafka job",
        "iOS builds",
        "Lyon",
    )
    assert parts_of("What does Kafka cost in Lyon?") == ()


def test_capitals_that_begin_a_sentence_are_no_names() -> None:
    assert parts_of("Boards first. Kafka next. Builds last. Lyon after that.") == ()


def test_a_word_with_a_dash_or_a_dot_is_not_divided() -> None:
    assert parts_of("Is sign-off in Fly.io, README.md or by-Anna.doc?") == (
        "Fly.io",
        "README.md",
        "by-Anna.doc",
    )


def test_other_languages_use_capitals_for_other_words() -> None:
    assert parts_of("Wie kommen die Tafeln, der Auftrag und die Bauten nach Lyon?") == ()


def test_a_long_prompt_has_no_parts_and_a_short_one_few() -> None:
    assert parts_of("Kafka, Lyon, Grafana\nand iOS") == ()
    assert len(parts_of(", ".join(f"the App{number}" for number in range(15)))) == MAX_PARTS


def test_a_long_prompt_also_asks_the_lines_of_prose_around_a_paste() -> None:
    first, last = "Here is what I get since yesterday", "Which setting makes this fail on staging?"
    whole, *lines = queries_of(f"{first}\n\n{PASTE}\n\n{last}")
    assert whole.startswith(first)
    assert lines == [first, last]


@pytest.mark.parametrize("question", ["which port?", "¿qué puerto?", "どのポートですか\uff1f"])
def test_a_short_question_next_to_a_paste_is_asked(question: str) -> None:
    assert queries_of(f"{PASTE}\n{question}")[1:] == (question,)
    assert queries_of(f"{question}\n{PASTE}")[1:] == (question,)
    assert queries_of(f"{PASTE}\n{question}\n{PASTE}")[1:] == (question,)


def test_a_question_among_other_sentences_is_asked() -> None:
    question = "Which header carries the tenant?"
    story = "I have read the settings of the gateway all day long and understand nothing. " * 3
    assert queries_of(f"{story}{question} {story}")[-1] == question


def test_each_of_several_questions_is_asked() -> None:
    prompt = "which port? and what is the rate limit? ok?"
    assert queries_of(prompt) == (prompt, "which port?", "and what is the rate limit?")
    assert queries_of("Is it red? Thanks.") == ("Is it red? Thanks.",)


@pytest.mark.parametrize(
    "pasted",
    [
        "> can you tell me how long I have to send it back?\n> all the best from Tom",
        "Subject: new prices for all of the customers",
        "On Tuesday, Tom wrote:",
        "```\nThe function reads all of the values and sums them\n```",
        "+The quick brown fox jumped over it\n-The quick brown fox jumps over it",
        "Traceback (most recent call last):",
    ],
)
def test_quotes_and_pastes_are_not_asked(pasted: str) -> None:
    question = "What should I answer about the refund"
    assert queries_of(f"{question}\n\n{pasted}")[1:] == (question,)
    assert queries_of(f"{pasted}\n\n{question}")[1:] == (question,)


def test_a_paste_without_prose_asks_itself_only() -> None:
    (whole,) = queries_of(PASTE)
    assert whole == PASTE.strip()[:FIRST_WINDOW]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Which setting makes this fail on staging?", True),
        ("为什么今天早上的部署失败了", True),
        ("return compute the value of it;", False),
        ("import numpy", False),
        ("from agentctx.service.rag import prompt, cues, fuse", False),
        ("from which branch do we release it", True),
        ("at which hour does the backup run", True),
        ("# compute the mean of all values", False),
        ("2026-11-23 10:00:01 ERROR [db] 42", False),
        ("ok then", False),
    ],
)
def test_prose_is_distinguished_from_code(line: str, expected: bool) -> None:
    assert is_prose(line) is expected


@given(st.text(min_size=1, max_size=4_000))
def test_every_prompt_asks_something_short_enough(prompt: str) -> None:
    queries = queries_of(prompt)
    assert 1 <= len(queries) <= 4
    assert all(len(query) <= max(FIRST_WINDOW, 300) for query in queries)


def test_a_prompt_that_repeats_a_few_words_is_searched_by_each_word_once() -> None:
    words = "amber basalt cedar delta ember"
    (query,) = queries_of(" ".join([words] * 400))
    assert query.startswith(words)
    assert len(query) < 2 * len(words)
    asked = "Which header carries the tenant?"
    assert queries_of("\n".join([*[words] * 400, asked]))[-1] == asked


CODE = "\n".join(f"    value_{line} = compute({line}, mode='fast')" for line in range(60))


@pytest.mark.parametrize(
    ("prompt", "request_"),
    [
        (f"{CODE}\n\nCommit this.", "Commit this."),
        (f"```python\n{CODE}\n```\nCommit this.", "Commit this."),
        (f"Review it please:\n\n{CODE}", "Review it please:"),
    ],
)
def test_a_few_words_set_off_from_a_paste_are_searched_too(prompt: str, request_: str) -> None:
    assert queries_of(prompt)[1:] == (request_,)


@pytest.mark.parametrize("end", ["\n\n" + CODE, "\nreturn result", "\n\nthanks!", ""])
def test_a_paste_without_a_request_is_one_query(end: str) -> None:
    assert len(queries_of(CODE + end)) == 1
