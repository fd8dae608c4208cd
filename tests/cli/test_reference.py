from tests.docs_scripts import DOCS, docs_script

script = docs_script("record_cli_reference")
reference = script.reference


def test_the_page_is_up_to_date() -> None:
    current = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert current == script.page(current), "run `make reference`"


def test_arguments_options_defaults_and_choices_are_reported() -> None:
    page = reference()
    search = page[page.index("### `agentctx search QUERY…`") : page.index("### `agentctx context QUERY…`")]
    assert "- `QUERY…`: The question in plain words" in search
    assert "| `--order distance\\|relevance` | `relevance` | Order of the results. |" in search
    assert "| `-c, --collection COLLECTION` |  |" in search
    assert "| `--limit N` |" in search
    assert "agentctx search when do deploys happen\n" in search
    assert "| `--json` |  | Print one JSON document. |" in search
    assert "### `agentctx queue drain`" in page
