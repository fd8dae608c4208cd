"""The Python reference is made from the code, and has everything in it."""

from agentctx import AsyncClient
from tests.docs_scripts import DOCS, docs_script

script = docs_script("record_python_reference")


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "python-reference.md").read_text(encoding="utf-8") == script.reference().rstrip() + "\n", (
        "run `make reference`"
    )


def test_every_method_of_the_clients_is_there_with_its_options() -> None:
    public = {name for name in dir(AsyncClient) if not name.startswith("_")} - {"is_async"}
    assert set(script.client_methods()) == public
    page = script.reference()
    search = page[page.index("### `search`") : page.index("### `context`")]
    assert "search(query: str, **options) -> SearchReply" in search
    assert "Options: [SearchOptions](#searchoptions)." in search
    options = page[page.index("### KnowledgeOptions") : page.index("### NoteOptions")]
    assert "| `cues` | list[str] \\| None | Up to 8 questions or situations" in options
    assert "| `ttl` | str \\| None | How long to keep the entry" in options
    assert "start_timeout_s: float = 5.0" in page
    assert "| `DaemonUnreachable` | `daemon_unreachable` |" in page
    assert "### `create_provider`" in page
