import pytest

from agentctx.cli.ask import location_text
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
    assert location_text(location) == text
