import json

from agentctx.agents.connect.edits import ConfigEdit, apply, revert

SERVER = ConfigEdit("member", ("mcpServers", "agentctx"), {"command": "/x/agentctx", "args": ["mcp"]})
OURS = ConfigEdit("file", (), "ours\n")


def test_reverting_a_whole_file_deletes_it() -> None:
    assert revert(apply(None, [OURS]), [OURS]) is None


def test_edits_are_reverted_after_the_user_has_reformatted_the_file() -> None:
    original = '{\n  "theme": "dark"\n}\n'
    reformatted = json.dumps(json.loads(apply(original, [SERVER])), indent=8)
    assert json.loads(revert(reformatted, [SERVER], original=original) or "") == {"theme": "dark"}


def test_a_member_that_the_user_added_after_ours_is_kept_without_our_comma() -> None:
    connected = apply("{}", [SERVER])
    extended = connected.rstrip().removesuffix("}") + ', "theme": "dark"}'
    assert json.loads(revert(extended, [SERVER], original="{}") or "") == {"theme": "dark"}


def test_a_member_that_the_user_removed_stays_removed() -> None:
    original = '{"theme": "dark"}'
    assert revert('{"theme": "light"}', [SERVER], original=original) == '{"theme": "light"}'
