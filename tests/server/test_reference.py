from __future__ import annotations

from pathlib import Path

from tests.server.reference_page import document, reference

PAGE = Path(__file__).parents[2] / "docs" / "http-reference.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == reference(document()).rstrip() + "\n", "run `make reference`"


def test_every_route_and_object_is_on_the_page() -> None:
    openapi, page = document(), reference(document())
    for path, operations in openapi["paths"].items():
        for method in operations:
            assert f"### {method.upper()} {path}\n" in page
    for name in openapi["components"]["schemas"]:
        assert f"### {name}\n" in page
        assert f"(#{name.lower()})" in page
