import pytest

from agentctx.cli.places import file_record, place
from agentctx.wire import Location


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(path="a/notes.md", unit="line", first=12, last=20), "a/notes.md:12-20"),
        (Location(path="a/notes.md", unit="line", first=7, last=7), "a/notes.md:7"),
        (Location(path="report.pdf", unit="page", first=3, last=3), "report.pdf page 3"),
        (Location(path="talk.pptx", unit="slide", first=1, last=2), "talk.pptx slides 1-2"),
    ],
)
def test_a_place_is_human_readable(location: Location, text: str) -> None:
    assert place(location) == text


def test_a_file_record_is_short_however_many_places_it_has() -> None:
    record = {
        "digest": "0123456789abcdef" * 4,
        "size": 12_345,
        "modified": 1,
        "part": 2,
        "parts": 3,
        "unit": "page",
        "places": [[offset, 1] for offset in range(10_000)],
    }
    assert file_record(record) == "part 2 of 3, 12.3 kB, sha256 0123456789ab"
    assert file_record({**record, "part": 1, "parts": 1}) == "12.3 kB, sha256 0123456789ab"
