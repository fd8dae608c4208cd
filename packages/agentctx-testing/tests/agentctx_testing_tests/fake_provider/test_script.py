from agentctx_testing.fake_provider.answers import FakeAnswer
from agentctx_testing.fake_provider.faults import HttpFault
from agentctx_testing.fake_provider.script import RecordedRequest, Script


def asked(text: str) -> RecordedRequest:
    return RecordedRequest(provider="openai", path="/v1/embeddings", has_key=True, payload={"input": text})


def kinds(script: Script, *texts: str) -> list[str | None]:
    taken = [script.take(asked(text)) for text in texts]
    return [fault.kind if fault else None for fault in taken]


def test_the_first_matching_fault_applies() -> None:
    script = Script([HttpFault(kind="nan", request=2), HttpFault(kind="zeros", contains="bad")])
    assert kinds(script, "bad", "bad", "good") == ["zeros", "nan", None]


def test_a_fault_applies_at_most_times_times() -> None:
    script = Script([HttpFault(kind="reset", times=2), HttpFault(kind="nan", times=1)])
    assert kinds(script, *"abcd") == ["reset", "reset", "nan", None]


def test_a_new_script_counts_from_1_and_keeps_recorded_requests() -> None:
    script = Script([HttpFault(kind="nan", request=1)])
    assert kinds(script, "a") == ["nan"]
    script.set([HttpFault(kind="zeros", request=1)])
    assert kinds(script, "b", "c") == ["zeros", None]
    assert [(seen.number, seen.payload, seen.fault) for seen in script.seen] == [
        (1, {"input": "a"}, "nan"),
        (1, {"input": "b"}, "zeros"),
        (2, {"input": "c"}, None),
    ]
    script.reset()
    assert kinds(script, "d") == [None]
    assert [seen.number for seen in script.seen] == [1]


def test_only_the_last_requests_are_kept() -> None:
    script = Script(kept=2)
    kinds(script, "a", "b", "c")
    assert [seen.payload for seen in script.seen] == [{"input": "b"}, {"input": "c"}]


def test_answers_are_chosen_like_faults() -> None:
    script = Script()
    script.set_answers([FakeAnswer(text="once", contains="b", times=1), FakeAnswer(text="else")])
    text_of = []
    for text in "abb":
        seen = asked(text)
        script.take(seen)
        answer = script.answer(seen)
        text_of.append(answer and answer.text)
    assert text_of == ["else", "once", "else"]
    script.reset()
    assert script.answer(asked("a")) is None
