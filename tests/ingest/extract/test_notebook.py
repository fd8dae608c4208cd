from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.ingest.extract.base import ExtractRefusal
from tests.ingest.extract import samples
from tests.ingest.extract.promises import extracted, extracted_or_refused, number_of, text_of


def test_the_sources_of_the_cells_without_outputs() -> None:
    notebook = extracted("a.ipynb", samples.notebook())
    assert notebook.text == "# Harbour\nA plan.\n\n```python\nprint('sloop')\n```"
    assert notebook.unit == "cell"
    assert (number_of("plan", notebook), number_of("sloop", notebook)) == (1, 3)


def test_the_older_format_is_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Ships"]},
        {"cell_type": "code", "input": ["a = 1\n", "```"], "language": "python"},
    ]
    data = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3}).encode()
    assert text_of("a.ipynb", data) == "## Ships\n\n````\na = 1\n```\n````"


def test_half_surrogates_in_json_are_made_text() -> None:
    data = rb'{"cells": [{"cell_type": "markdown", "source": "a\ud83d b\u0000"}]}'
    assert text_of("a.ipynb", data) == "a\ufffd b"


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"", ExtractRefusal.EMPTY),
        (b" \n", ExtractRefusal.EMPTY),
        (b'{"cells": []}', ExtractRefusal.EMPTY),
        (b'{"cells": [{"cell_type": "code", "source": ""}, 3, null]}', ExtractRefusal.EMPTY),
        (b"{", ExtractRefusal.DAMAGED),
        (b"[]", ExtractRefusal.DAMAGED),
        (b'{"cells": {}}', ExtractRefusal.DAMAGED),
        (b'{"worksheets": [1]}', ExtractRefusal.DAMAGED),
        (b"[" * 100_000, ExtractRefusal.DAMAGED),
        (b'{"cells": ' + b"9" * 10_000 + b"}", ExtractRefusal.DAMAGED),
    ],
)
def test_a_file_that_is_not_a_notebook_is_refused(data: bytes, refusal: ExtractRefusal) -> None:
    assert extracted_or_refused("a.ipynb", data) == refusal


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cells", "worksheets", "cell_type", "source", "input", "level", "metadata"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_is_a_notebook_or_refused(value: Any) -> None:
    extracted_or_refused("a.ipynb", json.dumps(value).encode())
