from agentctx.fake_provider.faults import Fault
from agentctx.fake_provider.script import Script


def kinds(script: Script, *texts: str) -> list[str | None]:
    taken = [script.take("openai", "/v1/embeddings", {"input": text}, has_key=True) for text in texts]
    return [fault.kind if fault else None for fault in taken]


def test_the_first_that_fits_happens() -> None:
    script = Script([Fault(kind="nan", request=2), Fault(kind="zeros", contains="bad")])
    assert kinds(script, "bad", "bad", "good") == ["zeros", "nan", None]


def test_a_fault_happens_as_often_as_it_may() -> None:
    script = Script([Fault(kind="reset", times=2), Fault(kind="nan", times=1)])
    assert kinds(script, *"abcd") == ["reset", "reset", "nan", None]


def test_a_new_script_counts_from_1_and_keeps_what_came_in() -> None:
    script = Script([Fault(kind="nan", request=1)])
    assert kinds(script, "a") == ["nan"]
    script.set([Fault(kind="zeros", request=1)])
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
    script.record_elsewhere("/x", None, has_key=False)
    assert [(seen.provider, seen.number) for seen in script.seen] == [("openai", 3), ("elsewhere", 0)]
