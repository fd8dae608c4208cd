import random

import pytest

from agentctx.errors import InvalidInput, NotFound
from tests.text.redaction.corpus import KINDS, planted


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "knowlege",
        "entries[0].tags",
        "7x",
        "2026-13-45",
        "/srv/backups/a.db",
        "0192f0c1-5a3c-7c1d-9b2e-1f2a3b4c5d6e",
    ],
)
def test_a_plain_value_is_repeated(value: str) -> None:
    assert InvalidInput(f"{value!r} is wrong").message == f"'{value}' is wrong"


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"pin"}))  # six digits say nothing of what they are
def test_an_error_about_a_request_never_repeats_a_secret(kind: str) -> None:
    secret = planted(kind, random.Random(f"error {kind}")).secret
    for quoted in (repr(secret), repr(secret[:40]), f'"{secret}"', f"`{secret}`"):
        error = NotFound(f"there is no {quoted} here", hint=f"Not {quoted}.")
        assert secret[:12] not in f"{error}{error.message}{error.hint}"
