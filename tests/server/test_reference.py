from __future__ import annotations

from tests.docs_scripts import DOCS, docs_script

script = docs_script("record_http_reference")
document, reference = script.document, script.reference


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "http-reference.md").read_text("utf-8") == reference(document()).rstrip() + "\n", (
        "run `make reference`"
    )


def test_every_route_and_object_is_on_the_page() -> None:
    openapi, page = document(), reference(document())
    for path, operations in openapi["paths"].items():
        for method in operations:
            assert f"### {method.upper()} {path}\n" in page
    for name in openapi["components"]["schemas"]:
        assert f"### {name}\n" in page
        assert f"(#{name.lower()})" in page
