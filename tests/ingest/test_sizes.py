import pytest

from agentctx.errors import InvalidInput
from agentctx.ingest.sizes import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500), ("200kB", 200_000), ("10MB", 10_000_000), ("1.5 GB", 1_500_000_000), ("2MiB", 2_097_152)],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "10 apples", "1e3", "10TBs", "\u0663MB"])
def test_anything_else_is_no_size(text: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid size"):
        parse_size(text)
