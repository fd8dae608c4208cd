"""The same error is recognised whatever ids, times, folders and counts it contains; another error is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.service.stores.error_key import error_key
from tests.service.stores.error_texts import HELD_BACK, TEMPLATES, Pair, pairs

SAME = (
    ("job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed", "job 6ba7b810-9dad-11d1-80b4-00c04fd430c8 failed"),
    ("at 2026-11-21T08:00:00.123Z: no", "at 2025-01-02 10:20:30+02:00: no"),
    ("cannot open /tmp/pytest-1/x.log", "cannot open /var/folders/zz/T/y.txt"),
    ("cannot open /home/ann/shop/x.log", "cannot open /srv/bob/shop/x.log"),
    (r"cannot open C:\Users\a\shop\x.log", r"cannot open D:\work\shop\x.log"),
    ("object at 0x7f3a2b", "object at 0xdeadbeef"),
    ("commit 3a5f9c0d1e2b4a68 missing", "commit 99aa88bb77cc66dd missing"),
    ("Timeout  after 30 s\n", "timeout after 1m45s"),
    ("main.c:12:5: error: expected ';'", "main.c:340:17: error: expected ';'"),
    ("read 127.0.0.1:53412->127.0.0.1:5432 reset", "read 127.0.0.1:40011->127.0.0.1:5432 reset"),
    ("sshd[1234]: error: 3 tests failed", "sshd[99]: error: 17 tests failed"),
    ("pod web-7d9f8b6c5d-x2x9z failed", "pod web-5f7c9d8b62-abcde failed"),
    ("closed 1f462de30803897f.db.local:5432", "closed 5c01896f5cccb129.db.local:5432"),
    (
        "cannot load https://a.io/assets/index-DbQ2xY9p.js",
        "cannot load https://a.io/assets/index-B7c_kLm2.js",
    ),
    ("error at app.4c9d2f1e.js:1:20412", "error at app.77aa0b1c.js:1:3211"),
    ("5 tests failed in 2m 13s", "7 tests failed in 45s"),
)
OTHER = (
    ("permission denied", "file not found"),
    ("and/or missing", "either missing"),
    ("KeyError: 'a'", "KeyError: 'b'"),
    ("HTTP 404", "HTTP 500"),
    ("404 Not Found", "500 Internal Server Error"),
    ("exit code 1", "exit code 137"),
    ("failed (exit status 2)", "failed (exit status 3)"),
    ("error[E0308]: no", "error[E0382]: no"),
    ("ERROR 1045 (28000): no", "ERROR 1064 (42000): no"),
    ("ORA-00942: no", "ORA-01017: no"),
    ("[Errno 2] no", "[Errno 13] no"),
    ("SQLSTATE 23505", "SQLSTATE 23503"),
    ("failed with 0x80070005", "failed with 0x80070002"),
    ("connection to localhost:5432 refused", "connection to localhost:6379 refused"),
    ("listen tcp :8080: in use", "listen tcp :8081: in use"),
    ("port 80 is taken", "port 443 is taken"),
    ("needs python 3.11", "needs python 3.12"),
    ("needs node >= 18", "needs node >= 20"),
    ("needs lib==1.2.3", "needs lib==1.2.4"),
    ("CVE-2024-3094 found", "CVE-2021-44228 found"),
    ("cannot read /etc/hosts", "cannot read /etc/passwd"),
    ("cannot read /home/ann/shop/a/package.json", "cannot read /home/ann/shop/b/package.json"),
    ("killed by signal 9", "killed by signal 11"),
    ("Killed: 9", "Killed: 15"),
    ("The process exited with 3", "The process exited with 4"),
    ("cannot listen on 8080", "cannot listen on 9090"),
    ("tcp://10.0.0.1:5432 refused", "tcp://10.0.0.1:5433 refused"),
    ("needs numpy-1.26.4", "needs numpy-2.0.0"),
    ("version `GLIBC_2.31' not found", "version `GLIBC_2.34' not found"),
    ("curl: (35) no", "curl: (28) no"),
)
MOST_WRONG = 0.03


def test_tables() -> None:
    wrong = [pair for pair in SAME if error_key(pair[0]) != error_key(pair[1])]
    wrong += [pair for pair in OTHER if error_key(pair[0]) == error_key(pair[1])]
    assert wrong == []


@pytest.mark.parametrize("templates", [TEMPLATES, HELD_BACK], ids=["chosen", "held back"])
@pytest.mark.parametrize("seed", range(1, 4))
def test_generated_errors_are_told_apart(templates: tuple[str, ...], seed: int) -> None:
    tried = list(pairs(templates, 300, seed))
    wrong = [pair for pair in tried if _is_wrong(pair)]
    for is_same in (True, False):
        count = sum(pair.is_same is is_same for pair in tried)
        found = [pair for pair in wrong if pair.is_same is is_same]
        assert len(found) <= MOST_WRONG * count, found


@given(st.text(max_size=200))
def test_case_and_white_space_do_not_matter(text: str) -> None:
    assert error_key(text) == error_key(" ".join(text.lower().split()))


@given(st.text("a1.:/-_f x0([", max_size=300))
def test_every_text_has_a_key(text: str) -> None:
    assert isinstance(error_key(text), str)


def _is_wrong(pair: Pair) -> bool:
    return (error_key(pair.one) == error_key(pair.other)) is not pair.is_same
