"""Every requirement and scenario of the three documents has a test named after it."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.spec.names import NAMES, NOT_BUILT

FOLDER = Path(__file__).parent


def names_in(document: str) -> set[str]:
    tree = ast.parse((FOLDER / f"test_{document}.py").read_text("utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name.removeprefix("test_") for node in functions if node.name.startswith("test_")}


def test_every_name_has_its_test() -> None:
    for document, names in NAMES.items():
        assert names_in(document) == names - NOT_BUILT


def test_the_documents_are_counted_right() -> None:
    def counts(document: str) -> tuple[int, int]:
        scenarios = sum("__" in name for name in NAMES[document])
        return len(NAMES[document]) - scenarios, scenarios

    assert counts("embedding_and_rag") == (9, 11)
    assert counts("embedders_vector_stores_rerankers") == (7, 12)
    assert counts("chunkers") == (6, 12)
