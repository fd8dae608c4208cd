from pathlib import Path

import pytest

from tests.end_to_end.doc_examples import examples, shows

DOCUMENT = """# Title

```sh
echo 1
```

```text
1
```

<!-- not run: it needs root -->
```sh
systemctl start x
```

```json
{}
```

```python
print(2)
```
Text between.

```text
not its output
```
"""


def test_the_examples_of_a_document(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(DOCUMENT, "utf-8")
    found = [(each.line, each.language, each.code, each.output) for each in examples(document, tmp_path)]
    assert found == [(3, "sh", "echo 1\n", ("1",)), (20, "python", "print(2)\n", None)]


@pytest.mark.parametrize(
    ("output", "expected", "matches"),
    [
        (
            "saved  019a1b2c-1111-7000-8000-000000000001  version 3",
            ["saved  019a1b2c-9999-7000-8000-000000000002  version 1"],
            True,
        ),
        ("saved  version 3", ["unchanged  version 3"], False),
        ("a\nb\nc", ["a", "…", "c"], True),
        ("a\nc", ["a", "…", "c"], True),
        ("a\nb\nc", ["a", "c"], False),
        ("0.41  1.000  knowledge", ["0.39  0.9  knowledge"], True),
        ("path /tmp/x and more", ["path … and more"], True),
        ("folder /tmp/x/data", ["folder /home/ann/data"], True),
        ("folder /tmp/x/data", ["folder /tmp/x/dates"], False),
        ("up 2 min, 3.4 ms", ["up 59 s, 1.2 s"], True),
        ("a\nb", ["a"], False),
        ("a", ["a", "b"], False),
        ("", [], True),
    ],
)
def test_variable_parts_of_outputs_are_ignored(output: str, expected: list[str], matches: bool) -> None:
    assert shows(output, expected) is matches
