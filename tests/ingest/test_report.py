import json

from agentctx.ingest.known import KnownFile
from agentctx.ingest.plan import FileVerdict
from agentctx.ingest.report import Report
from agentctx.ingest.unread import UnreadCause, UnreadFile


def unread(source: str, reason: str, *, is_new: bool = True) -> UnreadFile:
    return UnreadFile(source, UnreadCause.GONE, reason, ("1",), KnownFile(source), is_new=is_new)


def test_the_document_has_counts_reasons_failures_and_states() -> None:
    report = Report(roots=["/d"], unchanged=7, entries=4, bytes=99)
    report.saved[FileVerdict.NEW] += ["/d/a", "/d/b"]
    report.skip("/d/.env\n", "hidden")
    report.fail("/d/c", "permission denied", "Run as its owner.")
    report.withdrawn.append(unread("/d/e", "gone"))
    report.stale.append(unread("/d/g", "permission denied"))
    report.returned.append("/d/b")
    report.removed.append(unread("/d/f", "ignored"))
    report.remark("/d/a", "a sheet was cut")
    assert json.loads(json.dumps(report.document())) == {
        "roots": ["/d"],
        "dry_run": False,
        "interrupted": False,
        "counts": {
            "new": 2,
            "changed": 0,
            "touched": 0,
            "unchanged": 7,
            "returned": 1,
            "withdrawn": 1,
            "stale": 1,
            "removed": 1,
            "skipped": 1,
            "failed": 1,
        },
        "entries": 4,
        "bytes": 99,
        "new": ["/d/a", "/d/b"],
        "changed": [],
        "touched": [],
        "returned": ["/d/b"],
        "withdrawn": [{"path": "/d/e", "reason": "gone"}],
        "stale": [{"path": "/d/g", "reason": "permission denied"}],
        "removed": [{"path": "/d/f", "reason": "ignored"}],
        "skipped": [{"path": "/d/.env\\u000a", "reason": "hidden", "hint": ""}],
        "failed": [{"path": "/d/c", "problem": "permission denied", "hint": "Run as its owner."}],
        "remarks": [{"path": "/d/a", "remark": "a sheet was cut"}],
        "estimate": None,
        "embedding": None,
        "cost": None,
    }


def test_the_wait_is_reported() -> None:
    assert Report(pending=0, buried=2).document()["embedding"] == {"pending": 0, "buried": 2}


def test_changes_count_what_became_of_entries_in_this_run() -> None:
    report = Report(unchanged=5)
    assert report.changes == 0
    report.saved[FileVerdict.TOUCHED].append("/d/a")
    report.removed.append(unread("/d/f", "gone"))
    assert report.changes == 2
    report.withdrawn += [unread("/d/g", "gone"), unread("/d/h", "gone", is_new=False)]
    report.returned.append("/d/i")
    assert report.changes == 4
