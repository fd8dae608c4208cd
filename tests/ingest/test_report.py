import json

from agentctx.ingest.plan import FileVerdict, Missing
from agentctx.ingest.report import Report


def test_the_document_has_counts_reasons_failures_and_missing() -> None:
    report = Report(roots=["/d"], unchanged=7, entries=4, bytes=99)
    report.saved[FileVerdict.NEW] += ["/d/a", "/d/b"]
    report.skip("/d/.env\n", "hidden")
    report.fail("/d/c", "permission denied", "Run as its owner.")
    report.missing.append(Missing("/d/e", "gone", ("1", "2")))
    report.removed.append(Missing("/d/f", "ignored", ("3",)))
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
            "removed": 1,
            "missing": 1,
            "skipped": 1,
            "failed": 1,
        },
        "entries": 4,
        "bytes": 99,
        "new": ["/d/a", "/d/b"],
        "changed": [],
        "touched": [],
        "removed": [{"path": "/d/f", "reason": "ignored"}],
        "missing": [{"path": "/d/e", "reason": "gone"}],
        "skipped": [{"path": "/d/.env\\u000a", "reason": "hidden", "hint": ""}],
        "failed": [{"path": "/d/c", "problem": "permission denied", "hint": "Run as its owner."}],
        "remarks": [{"path": "/d/a", "remark": "a sheet was cut"}],
        "estimate": None,
        "embedding": None,
        "cost": None,
    }


def test_the_wait_is_reported() -> None:
    assert Report(pending=0, buried=2).document()["embedding"] == {"pending": 0, "buried": 2}


def test_changes_count_saved_and_removed_entries() -> None:
    report = Report(unchanged=5)
    assert report.changes == 0
    report.saved[FileVerdict.TOUCHED].append("/d/a")
    report.removed.append(Missing("/d/f", "gone", ("3",)))
    assert report.changes == 2
