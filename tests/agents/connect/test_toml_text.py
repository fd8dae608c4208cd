import pytest

from agentctx.agents.connect.toml_text import TomlUnreadable, put_table, remove_table, table_in

PATH = ("mcp_servers", "agentctx")
TABLE = {"command": "/x/agentctx", "args": ["mcp", "--socket", "/run/a b.sock"]}
TEXTS = [
    "",
    'model = "gpt"\n',
    'model = "gpt"',
    "# mine\n[mcp_servers.other]\ncommand = 'x' # keep\n\n[profiles.a]\nb = 1\n",
    'text = """\n[mcp_servers.agentctx]\nno table\n"""\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_table_is_added_and_removed(text: str) -> None:
    edited = put_table(text, PATH, TABLE)
    assert edited.startswith(text)
    assert table_in(edited, PATH) == TABLE
    assert put_table(edited, PATH, TABLE) == edited


@pytest.mark.parametrize("text", TEXTS[:4])
def test_removal_restores_the_original_text(text: str) -> None:
    added = put_table(text, PATH, TABLE)
    assert remove_table(added, PATH).rstrip("\n") == text.rstrip("\n")
    assert remove_table(f"{added}\n[later]\na = 1\n", PATH).endswith("[later]\na = 1\n")


def test_an_existing_table_of_ours_is_replaced_in_place() -> None:
    text = put_table(TEXTS[3], PATH, {"command": "/old/agentctx", "args": ["mcp"]}) + "\n[later]\na = 1\n"
    edited = put_table(text, PATH, TABLE)
    assert table_in(edited, PATH) == TABLE
    assert edited.endswith("\n[later]\na = 1\n")
    assert "/old" not in edited


@pytest.mark.parametrize("text", ["a = ", "mcp_servers = {other = {command = 'x'}}\n", "mcp_servers = 1\n"])
def test_uneditable_text_is_refused(text: str) -> None:
    with pytest.raises(TomlUnreadable):
        put_table(text, PATH, TABLE)


HEADER_IN_A_STRING = """
text = '''
[mcp_servers.agentctx]
an example

'''

[mcp_servers.agentctx]
command = "old"
"""
INLINE = "mcp_servers = {agentctx = {command = 'x'}}\n"


@pytest.mark.parametrize("text", [HEADER_IN_A_STRING, INLINE])
def test_a_table_whose_place_is_unclear_is_neither_replaced_nor_removed(text: str) -> None:
    with pytest.raises(TomlUnreadable):
        put_table(text, PATH, TABLE)
    with pytest.raises(TomlUnreadable):
        remove_table(text, PATH)
