import re
import unicodedata
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.config.project import _address, namespace_of
from agentctx.config.schema import LimitSettings
from agentctx.names import is_namespace, name_from, namespace_from, namespace_given, normalised, readable
from agentctx.service.stores.fields import ContextFields, check
from tests.amount import examples

STORED = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}\Z")
MANY = settings(max_examples=examples(1_000), deadline=None)
KINDS = st.sampled_from(["git", "dir", "user"])
AWKWARD = st.text(st.sampled_from("ab/.-_:@~ +#%2é\u0301中\n\\\"'[]()0fx"), max_size=140)
ANYTHING = st.text(st.characters(), max_size=400)
AS_BYTES = st.binary(max_size=300).map(lambda raw: raw.decode(errors="surrogateescape"))
INVISIBLE = st.text(st.sampled_from("a \u200d\u200b\u0301\ufe0f\u2764\u1100\u1161\u1160\u3000"))
ORIGINALS = st.one_of(AWKWARD, ANYTHING, AS_BYTES, AWKWARD.map(lambda text: text * 20))


def name_of_yesterday(kind: str, original: str) -> str:
    """Return the name that versions before the escapes made, whether the stores accepted it or not."""
    name = f"{kind}:{original}"
    if kind == "user" or len(name) <= 120:
        return name
    return f"{name[:107]}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:12]}"


@MANY
@given(kind=KINDS, original=ORIGINALS)
def test_every_text_has_a_name_that_the_stores_accept(kind: str, original: str) -> None:
    name = namespace_from(kind, original)
    assert STORED.match(name)
    assert check(ContextFields, {"namespace": name}, LimitSettings(), what="It")["namespace"] == name


@MANY
@given(kind=KINDS, original=ORIGINALS)
def test_a_name_that_was_accepted_before_stays(kind: str, original: str) -> None:
    before = name_of_yesterday(kind, original)
    if STORED.match(before):
        assert namespace_from(kind, original) == before
    else:
        assert namespace_from(kind, original).startswith(f"{kind}-x:")


@MANY
@given(kind=KINDS, texts=st.lists(ORIGINALS, min_size=2, max_size=6, unique=True))
def test_different_originals_have_different_names(kind: str, texts: list[str]) -> None:
    assert len({namespace_from(kind, text) for text in texts}) == len(texts)


def test_a_name_that_looks_cut_is_not_that_of_the_longer_one() -> None:
    long = namespace_from("dir", "/" + "x" * 300)
    lookalike = long.removeprefix("dir:")
    assert namespace_from("dir", lookalike) != long
    escaped = namespace_from("dir", "/ü" * 300)
    assert namespace_from("dir", escaped.removeprefix("dir-x:")) != escaped


@MANY
@given(kind=KINDS, original=ORIGINALS)
def test_an_escaped_name_is_shown_as_what_it_was_made_from(kind: str, original: str) -> None:
    name = namespace_from(kind, original)
    shown = readable(name)
    assert shown.isprintable()
    if name.startswith(f"{kind}-x:") and "@@" not in name and original.isprintable():
        assert shown == f"{kind}:{original}"
        assert namespace_given(shown) in {name, None if is_namespace(shown) else name}
    if "@@" in name and name.startswith(f"{kind}-x:"):
        assert shown[-17] == "…"


@pytest.mark.parametrize(
    ("kind", "original", "name"),
    [
        ("dir", "/home/ann/shop", "dir:/home/ann/shop"),
        ("dir", "/home/ann/my shop", "dir-x:/home/ann/my@20shop"),
        ("git", "git.sr.ht/~bob/x", "git-x:git.sr.ht/@7ebob/x"),
        ("user", "DOMAIN\\bob", "user-x:DOMAIN@5cbob"),
        ("dir", "/home/иван", "dir-x:/home/@.0LjQstCw0L0."),
        ("dir", "/x\udcff", "dir-x:/x@.7bO_."),
    ],
)
def test_examples(kind: str, original: str, name: str) -> None:
    assert namespace_from(kind, original) == name


@pytest.mark.parametrize("name", ["", " a", "a b", "é", "-a", "a" * 129, "a\n", "x:b c", "gits:b c"])
def test_what_is_no_namespace(name: str) -> None:
    assert namespace_given(name) is None


@pytest.mark.parametrize("name", ["git-x:", "dir-x:@.____.", "dir-x:@zz@", "team-x:@20", "dir-x:@@0"])
def test_a_name_made_by_hand_is_shown_too(name: str) -> None:
    assert is_namespace(name)
    assert readable(name).isprintable()


@MANY
@given(
    url=st.one_of(AWKWARD, ANYTHING, AWKWARD.map("git@host:{}".format), AWKWARD.map("ssh://[::1]/{}".format))
)
def test_every_remote_has_a_name(url: str) -> None:
    assert STORED.match(namespace_of(url, "/x/.git"))


@MANY
@given(urls=st.lists(AWKWARD.map("ssh://git@Host:22/{}".format), min_size=2, max_size=5, unique=True))
def test_remotes_with_different_addresses_have_different_names(urls: list[str]) -> None:
    addresses = {_address(url) for url in urls} - {None}
    names = {namespace_of(url, "/x/.git") for url in urls if _address(url)}
    assert len(names) == len(addresses)


@pytest.mark.parametrize(
    "alike",
    [
        ("caf\u00e9", "cafe\u0301"),
        ("deploy", " deploy", "deploy\u00a0", "de\u200bploy", "de\u00adploy", "\ufeffdeploy", "de\u2060ploy"),
        ("deploy", "de\u200cploy", "de\u200dploy", "deploy\u200d", "deploy\ufe0f", "\u202edeploy\u202c"),
        ("deploy window", "deploy\u00a0window", "deploy\u3000window", "deploy \u200bwindow"),
        ("\u212b", "\u00c5", "A\u030a"),
        ("\uac00", "\u1100\u1161"),
    ],
)
def test_what_looks_alike_is_one_name(alike: tuple[str, ...]) -> None:
    assert len(set(map(normalised, alike))) == 1


@pytest.mark.parametrize(
    "name",
    [
        "👩\u200d💻",
        "❤\ufe0f",
        "\u0645\u06cc\u200c\u0631\u0648\u0645",
        "\u0915\u094d\u200d\u0937",
        "ﬁnance",
        "a  b",
    ],
)
def test_what_is_visible_stays(name: str) -> None:
    assert normalised(name) == name


@MANY
@given(
    text=st.one_of(
        ANYTHING, AWKWARD, st.text(st.sampled_from("a \u200d\u200b\u0301\ufe0f\u2764\u1100\u1161\u1160"))
    )
)
def test_a_redact_name_is_normalised(text: str) -> None:
    name = normalised(text)
    assert normalised(name) == name
    assert name == name.strip()
    assert unicodedata.is_normalized("NFC", name)


@MANY
@given(reported=st.one_of(ANYTHING, AS_BYTES, AWKWARD.map(lambda text: text * 200)))
def test_every_session_has_a_name_that_the_stores_accept(reported: str) -> None:
    name = name_from(reported)
    check(ContextFields, {"namespace": "n", "session": name, "agent": name}, LimitSettings(), what="It")


@MANY
@given(texts=st.lists(ANYTHING, min_size=2, max_size=6, unique_by=normalised))
def test_different_sessions_stay_apart(texts: list[str]) -> None:
    assert len(set(map(name_from, texts))) == len(texts)


@pytest.mark.parametrize("name", ["s1", "conversation 7", "👩\u200d💻", "\ue000"])
def test_a_session_that_is_accepted_stays(name: str) -> None:
    assert name_from(name) == name
