"""The negative control of the suites: each notices a part that breaks a promise, and says which."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BROKEN = Path(__file__).with_name("broken_parts.py")
NOTICED = {
    ("Store", "test_given_stored_records_when_delete_is_called_with_ids_then_those_are_removed"),
    ("Provider", "test_a_text_has_the_same_vector_alone_in_a_batch_and_as_query"),
    ("Chunker", "test_the_chunks_of_any_text_cover_it_in_order"),
    ("Reranker", "test_the_most_relevant_come_first_and_ties_keep_their_order"),
    ("Engine", "test_an_expired_entry_is_hidden_before_the_sweep"),
}


def test_each_suite_notices_a_broken_promise() -> None:
    wanted = " or ".join(f"({suite} and {name})" for suite, name in NOTICED)
    command = [sys.executable, "-m", "pytest", "-rf", "-n", "0", "-p", "no:cacheprovider", "-k", wanted]
    done = subprocess.run([*command, str(BROKEN)], capture_output=True, text=True, timeout=170, check=False)
    failed = re.findall(r"^FAILED .*::Test(\w+)::(\w+)", done.stdout, re.M)
    assert set(failed) == NOTICED, done.stdout + done.stderr
    assert "At index 0 diff" in done.stdout, "a failed assertion shows its values"
