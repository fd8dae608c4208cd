from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.known import KnownFile, Labels, StoredPart
from agentctx.ingest.plan import FileVerdict, judge, labels_for, make_plan, verdict_on
from agentctx.ingest.unread import (
    MissingPolicy,
    NearestFolder,
    RecordedFolders,
    UnreadCause,
    recorded_folders,
)
from agentctx.ingest.walk import ExcludedPath, FoundFile, UnreadablePath, WalkItem
from agentctx.wire import FileSight


def known(source: str, *, digest: str = "d", size: int = 1, modified: int = 2, **changes: Any) -> KnownFile:
    labels = changes.pop("labels", Labels(tags=(), category="fact"))
    parts = changes.pop("parts", 1)
    held = [StoredPart(f"{source}#{n}", digest, size, modified, parts, labels) for n in range(1, parts + 1)]
    return KnownFile(source, dict(enumerate(held, 1)))


def index(*files: KnownFile) -> dict[str, KnownFile]:
    return {file.source: file for file in files}


@pytest.mark.parametrize(
    ("found", "file", "is_read"),
    [
        (FoundFile("/a", 1, 2), None, True),
        (FoundFile("/a", 1, 2), known("/a"), False),
        (FoundFile("/a", 9, 2), known("/a"), True),
        (FoundFile("/a", 1, 9), known("/a"), True),
        (FoundFile("/a", 1, 1), known("/a"), True),
        (FoundFile("/a", 1, 2), known("/a", parts=3), False),
        (FoundFile("/a", 1, 2), KnownFile("/a", {1: known("/a", parts=3).parts[1]}), True),
    ],
    ids=["new", "unchanged", "size", "later", "earlier", "in parts", "part missing"],
)
def test_only_possibly_changed_files_are_read(
    found: FoundFile, file: KnownFile | None, is_read: bool
) -> None:
    plan = make_plan([found], index(file) if file else {}, Labels())
    assert [each.file for each in plan.candidates] == ([found] if is_read else [])
    assert len(plan.unchanged) == (0 if is_read else 1)
    assert (plan.absent, plan.unread) == ([], [])


@pytest.mark.parametrize(
    ("wanted", "is_read"),
    [
        (Labels(), False),
        (Labels(tags=("t",)), False),
        (Labels(tags=("t", "u")), True),
        (Labels(category="rule"), True),
        (Labels(agent="me"), True),
    ],
)
def test_other_labels_are_a_reason_to_renew_the_record(wanted: Labels, is_read: bool) -> None:
    file = known("/a", labels=Labels(tags=("t",), category="fact"))
    plan = make_plan([FoundFile("/a", 1, 2)], index(file), wanted)
    assert bool(plan.candidates) is is_read


def test_labels_that_are_not_asked_for_stay() -> None:
    file = known("/a", labels=Labels(tags=("t",), category="rule", agent="me"))
    assert labels_for(Labels(), file) == Labels(("t",), "rule", "me")
    assert labels_for(Labels(tags=("u",)), file) == Labels(("u",), "rule", "me")
    assert labels_for(Labels(), None) == Labels()


@pytest.mark.parametrize(
    ("digest", "file", "verdict"),
    [
        ("d", None, FileVerdict.NEW),
        ("d", known("/a"), FileVerdict.TOUCHED),
        ("e", known("/a"), FileVerdict.CHANGED),
        ("d", KnownFile("/a", {2: known("/a", parts=2).parts[2]}), FileVerdict.CHANGED),
    ],
)
def test_the_digest_tells_touched_from_changed(
    digest: str, file: KnownFile | None, verdict: FileVerdict
) -> None:
    assert verdict_on(digest, file) is verdict


def test_excluded_files_say_why() -> None:
    seen: list[WalkItem] = [
        ExcludedPath("/d/ignored", "ignored"),
        ExcludedPath("/d/.x", "hidden"),
        ExcludedPath("/d/big", "larger than 1 bytes"),
    ]
    files = index(*(known(f"/d/{name}") for name in ("gone", "ignored/deep/a", ".x", "big")))
    plan = make_plan(seen, files, Labels())
    assert [each.source for each in plan.absent] == ["/d/gone"]
    assert {each.cause for each in plan.unread} == {UnreadCause.EXCLUDED}
    assert [(each.source, each.reason) for each in plan.unread] == [
        ("/d/ignored/deep/a", "ignored"),
        ("/d/.x", "hidden"),
        ("/d/big", "larger than 1 bytes"),
    ]


def test_an_unreadable_file_is_unseen() -> None:
    seen: list[WalkItem] = [UnreadablePath("/d/closed", "permission denied"), FoundFile("/d/a", 1, 2)]
    plan = make_plan(seen, index(known("/d/closed/deep/a"), known("/d/a")), Labels())
    assert [(each.source, each.cause, each.reason) for each in plan.unread] == [
        ("/d/closed/deep/a", UnreadCause.UNSEEN, "permission denied")
    ]
    assert plan.unreadable == [seen[0]]


def test_a_file_of_one_argument_is_not_excluded_by_another() -> None:
    seen: list[WalkItem] = [
        ExcludedPath("/d/.env", "hidden"),
        FoundFile("/d/.env", 1, 2),
        FoundFile("/d/.env", 1, 2),
    ]
    plan = make_plan(seen, {}, Labels())
    assert len(plan.candidates) == 1
    assert plan.excluded == []


def test_a_path_that_no_entry_can_name_is_left_out() -> None:
    plan = make_plan([FoundFile("/" + "é" * 2_048, 1, 2)], {}, Labels())
    assert plan.candidates == []
    assert "2,048" in plan.excluded[0].reason


def test_all_entries_of_a_file_that_is_gone_go() -> None:
    file = known("/a", parts=2)
    found = judge(
        file, NearestFolder("/", (1, 2), is_empty=False, modified=0), RecordedFolders(), fresh_since=0
    )
    assert (found.cause, found.reason, found.ids) == (UnreadCause.GONE, "gone", ("/a#1", "/a#2"))


def test_what_may_have_been_on_a_mount_of_the_same_disk_is_not_removable() -> None:
    file = known("/d/sub/a")
    file.parts[1] = replace(file.parts[1], folder=(1, 7))
    facts = recorded_folders([file], {})
    empty = judge(file, NearestFolder("/d", (1, 2), is_empty=True, modified=0), facts, fresh_since=0)
    assert (empty.cause, empty.is_removed(MissingPolicy.REMOVE)) == (UnreadCause.UNUSABLE, False)
    left = judge(file, NearestFolder("/d/sub", (1, 7), is_empty=True, modified=0), facts, fresh_since=0)
    assert left.cause is UnreadCause.GONE


def test_where_no_folder_can_be_seen_nothing_is_gone() -> None:
    assert judge(known("/a"), None, RecordedFolders(), fresh_since=0).cause is UnreadCause.UNSEEN


@pytest.mark.parametrize(("state", "is_fresh"), [(None, True), ("stale", True), ("withdrawn", False)])
def test_only_what_answers_include_gets_a_second_look(state: FileSight | None, is_fresh: bool) -> None:
    file = known("/a")
    file.parts[1] = replace(file.parts[1], state=state)
    found = judge(
        file, NearestFolder("/", (1, 2), is_empty=False, modified=9), RecordedFolders(), fresh_since=8
    )
    assert found.is_fresh is is_fresh


def test_with_an_encoding_all_is_read_again() -> None:
    plan = make_plan([FoundFile("/a", 1, 2)], index(known("/a")), Labels(), rereads=True)
    assert len(plan.candidates) == 1


SOURCES = st.sampled_from([f"/{folder}{name}" for folder in ("", "d/", "d/e/") for name in "abc"])
SEEN = st.lists(
    st.builds(FoundFile, SOURCES, st.integers(1, 2), st.integers(1, 2))
    | st.builds(ExcludedPath, SOURCES, st.just("ignored"))
    | st.builds(UnreadablePath, SOURCES, st.just("denied")),
    unique_by=lambda each: each.path,
)
KNOWN = st.lists(st.builds(known, SOURCES), unique_by=lambda file: file.source).map(
    lambda files: index(*files)
)


@given(SEEN, KNOWN)
def test_every_found_file_is_unchanged_or_read_and_every_known_one_accounted_for(
    seen: list[WalkItem], files: dict[str, KnownFile]
) -> None:
    plan = make_plan(seen, files, Labels())
    found = {each.path for each in seen if isinstance(each, FoundFile)}
    assert len(plan.candidates) + len(plan.unchanged) == len(found)
    assert {each.source for each in plan.candidates} <= found
    unread = {each.source: each for each in plan.unread}
    absent = {each.source for each in plan.absent}
    assert unread.keys() | absent == set(files) - found
    assert not unread.keys() & absent
    closed = [each.path for each in seen if isinstance(each, UnreadablePath)]
    for source, each in unread.items():
        is_closed = any(source == path or source.startswith(path + "/") for path in closed)
        assert (each.cause is UnreadCause.UNSEEN) == is_closed
