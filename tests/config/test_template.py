import tomllib
from pathlib import Path

from agentctx.config.load import effective_values, read_settings
from agentctx.config.template import commented_out, shipped_config


def test_the_template_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(commented_out(shipped_config()))
    reading = read_settings(file)
    assert reading.problems == []
    assert reading.settings is not None
    values = effective_values(reading.settings, reading.given)
    assert not [each.key for each in values if each.changed and each.origin.startswith("file")]


def test_each_setting_can_be_uncommented() -> None:
    shipped = shipped_config()
    written = commented_out(shipped).splitlines()
    for line, original in zip(written, shipped.splitlines(), strict=True):
        assert line in {original, f"# {original}"}
    assert "[server]" in written
    assert tomllib.loads("\n".join(written)).keys() == tomllib.loads(shipped).keys()
