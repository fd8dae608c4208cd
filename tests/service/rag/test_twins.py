"""What a question names decides between passages that name one of that kind."""

from __future__ import annotations

import pytest

from agentctx.service.rag.candidate import Candidate, Standing
from agentctx.service.rag.twins import MAX_EXACT, MAX_TWIN, MIN_GENERAL, by_names, standings
from agentctx.storage.search import ResolvedChunk
from tests.service.rag.test_select import entry


def standing(question: str, *passages: str) -> list[Standing | None]:
    return standings(question, passages)


def test_the_very_identifier_counts_and_another_one_of_its_kind_does_not() -> None:
    rule = "Commit messages begin with a verb."
    assert standing(
        "what was QRS-1234 about?", "QRS-1234 was a crash.", "QRS-1243 was a slow export.", rule
    ) == ["exact", "twin", None]


def test_a_question_about_a_name_that_only_has_twins_is_answered_by_none() -> None:
    assert standing("what was QRS-9999 about?", "QRS-1243 was a slow export.", "Exports are slow.") == [
        "twin",
        "unknown",
    ]


def test_a_name_that_merely_stands_in_a_task_leaves_nothing_out() -> None:
    passages = ("Tickets like QRS-1243 need a test.", "QRS-1242 was closed without a test.")
    assert standing("write a test for QRS-9999", *passages) == [None, None]
    assert standing("it's 12 August. Should we call off the race?", "In March 2024 we did.") == [None]


def test_an_environment_decides_in_tasks_too() -> None:
    passages = (
        "Staging logs may be shared.",
        "Logs on production stay there.",
        "In all environments, logs are kept; on staging twice.",
    )
    assert standing("download the prod logs", *passages) == ["twin", "has", None]
    assert standing("compare the logs of prod and staging", *passages[:2]) == ["has", "has"]


def test_a_threshold_is_no_twin_of_a_sum() -> None:
    assert standing("who got 1,250 EUR?", "Above 500 EUR ask Desai.", "The glazier got 1250.00 euros.") == [
        None,
        "exact",
    ]


def test_a_date_counts_in_any_form() -> None:
    assert standing("what happened on 3 Nov 2026?", "03/11/2026: power cut.", "2026-10-03: flood.") == [
        "exact",
        "twin",
    ]


def test_numbers_of_a_list_and_plurals_are_names() -> None:
    passages = ("Bed 3 has garlic.", "Bed 5 has asparagus.", "Bed 4 has leeks.")
    assert standing("what grows in beds 3 and 5?", *passages) == ["exact", "exact", "twin"]


def test_a_table_that_has_the_number_among_others_has_it() -> None:
    assert standing("what is on port 8080?", "api 8080, db 5432", "The proxy is on port 9090.") != [
        "twin",
        "twin",
    ]
    assert standing("what is on port 8080?", "Port 8080 is the api, port 5432 the db.")[0] == "exact"


def test_proper_names_count_in_lower_case_too() -> None:
    passages = ("We know that Anna likes short mails.", "We know that Bernd likes phone calls.")
    assert standing("how does bernd like to be informed?", *passages) == ["twin", "has"]
    assert standing("What does Carla like?", *passages) == ["twin", "twin"]


def test_a_name_beside_the_same_word_is_a_twin() -> None:
    assert standing("where is the practice of Dr Wendt?", "The practice of Dr Marek is at the market.") == [
        "twin"
    ]


def test_a_prompt_that_names_several_things_asks_about_each() -> None:
    passages = ("The practice of Dr Marek, who speaks Polish, is at the market.", "Dr Wendt is away in May.")
    assert standing("does Dr Wendt speak Polish?", *passages) == ["twin", "has"]
    assert standing("How do we tell Dr Wendt, the Bakers and the Polish school?", *passages) == ["has", "has"]


def test_names_in_pasted_code_merely_stand_there() -> None:
    paste = (
        "Traceback (most recent call last):\n  File \"src/auth/login.py\", line 4, in f\nKeyError: 'QRS-1'\n"
        * 4
    )
    assert standing(f"{paste}\nwhat does this mean?", "QRS-2 came from src/auth/logout.py.") == [None]


def test_a_name_that_many_passages_have_admits_none() -> None:
    passages = [f"QRS-12 step {number}" for number in range(MAX_EXACT + 1)]
    assert standing("what about QRS-12?", *passages) == ["has"] * len(passages)


def resolved(chunk: int, text: str, number: int | None = None) -> ResolvedChunk:
    return ResolvedChunk(chunk=chunk, start=0, end=len(text), content=text, entry=entry(number or chunk))


def candidate(chunk: int, relevance: float, number: int | None = None) -> Candidate:
    return Candidate(chunk, str(number or chunk), 1.0, 0.4, relevance=relevance)


def test_twins_go_below_what_has_the_name_and_lose_their_relevance() -> None:
    texts = {
        1: resolved(1, "QRS-13 was slow."),
        2: resolved(2, "Be kind."),
        3: resolved(3, "QRS-31 crashed."),
    }
    rated = [candidate(1, 0.9), candidate(2, 0.5), candidate(3, 0.3)]
    ordered = by_names("what was QRS-31?", rated, texts)
    assert [(each.chunk, each.names) for each in ordered] == [(3, "exact"), (2, None), (1, "twin")]
    assert [each.relevance for each in ordered] == [pytest.approx(0.76, abs=0.01), 0.5, MAX_TWIN]


def test_without_the_name_twins_stay_above_the_rest_and_a_very_relevant_general_rule_passes() -> None:
    texts = {1: resolved(1, "QRS-13 was slow."), 2: resolved(2, "Be kind."), 3: resolved(3, "Be quick.")}
    rated = [candidate(1, 0.9), candidate(2, MIN_GENERAL), candidate(3, 0.5)]
    ordered = by_names("what was QRS-31?", rated, texts)
    assert [(each.chunk, each.names) for each in ordered] == [(2, None), (1, "twin"), (3, "unknown")]


def test_a_chunk_is_no_twin_if_its_entry_has_the_name() -> None:
    texts = {1: resolved(1, "QRS-31 crashed.", 9), 2: resolved(2, "It came after QRS-13.", 9)}
    rated = [candidate(1, 0.9, 9), candidate(2, 0.8, 9)]
    assert [each.names for each in by_names("what was QRS-31?", rated, texts)] == ["exact", None]


def test_a_question_that_names_nothing_changes_nothing() -> None:
    texts = {1: resolved(1, "QRS-31 crashed on staging.")}
    rated = [candidate(1, 0.4)]
    assert by_names("how do we write tests?", rated, texts) == rated


def test_a_longer_number_is_another_one() -> None:
    assert standing("where is Seq 5?", "Seq 5 is in box A", "Seq 50 is in box B") == ["exact", "twin"]
    assert standing("wolf with studbook number 2698", "studbook number 1698: female") == ["twin"]


def test_fillers_and_typos_are_no_names() -> None:
    prompt = "ok so yeah teh lgo is weird again Hmm what do you think?"
    assert standing(prompt, "Anna thinks the log format should be JSON.") == [None]


def test_a_report_beside_a_paste_says_where_not_what() -> None:
    paste = "\n".join(f"write /var/lib/part-{number}: no space left on device" for number in range(4))
    learning = "No space left on device: inodes were exhausted on runner-07."
    assert standing(f"Builds fail on runner-12 but the disk isn't full?\n{paste}", learning) == [None]


def test_a_product_that_a_passage_has_does_not_pass_like_an_identifier() -> None:
    assert standing("does StateFlow skip equal values?", "ViewModel has one StateFlow.") == ["has"]
    assert standing("what does parseHeader do?", "parse_header keeps a cursor.") == ["exact"]


def test_a_long_passage_that_names_another_is_no_twin() -> None:
    about, other = "AND-288: the importer loses rows.", "AND-828: the importer adds rows. "
    long = other + "Much else was said in that meeting. " * 20
    assert standing("what was AND-288 about?", about, other, long) == ["exact", "twin", None]
