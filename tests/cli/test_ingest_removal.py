import pytest
import typer

from agentctx.cli.ingest_removal import Removal, chosen_removal


@pytest.mark.parametrize(
    ("remove", "keep", "watch", "removal"),
    [
        (False, False, False, Removal.ASK),
        (True, False, False, Removal.REMOVE),
        (False, True, False, Removal.KEEP),
        (False, False, True, Removal.REMOVE),
        (False, True, True, Removal.KEEP),
    ],
)
def test_a_watch_forgets_missing_files_unless_they_are_kept(
    remove: bool, keep: bool, watch: bool, removal: Removal
) -> None:
    assert chosen_removal(remove, keep, watch) is removal


def test_missing_files_cannot_be_both_kept_and_forgotten() -> None:
    with pytest.raises(typer.BadParameter, match="--keep-missing"):
        chosen_removal(remove_missing=True, keep_missing=True, watch=False)
