"""`python -m tests.end_to_end.record_outputs DOCUMENT…`: run the examples and write their output.

Only `text` blocks that follow an example are written; one that has a line `…` is left unchanged.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.end_to_end.daemon_process import DaemonProcess
from tests.end_to_end.doc_examples import Example, examples
from tests.end_to_end.reader import daemon_config, fake_vendors
from tests.end_to_end.test_docs import ROOT, run


def record(document: Path) -> None:
    """Run one document with its own daemon and write the outputs into it."""
    text = document.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch, fake_vendors() as vendors:
        config, port = daemon_config(vendors)
        daemon = DaemonProcess(Path(scratch), config=config).start()
        reader = Path(scratch) / "shop"
        (reader / ".git").mkdir(parents=True)
        try:
            for example in examples(document, ROOT):
                done = run(example, reader, daemon.socket, port)
                if done.returncode:
                    raise SystemExit(f"{example.document}:{example.line} failed\n{done.stderr}")
                text = _with_output(text, example, _of_ann(done.stdout, scratch))
        finally:
            daemon.end()
    document.write_text(text, encoding="utf-8")


def _of_ann(output: str, scratch: str) -> str:
    """Replace the paths of this run by those of a reader."""
    return output.replace(f"{scratch}/shop", "/home/ann/shop").replace(scratch, "/run/user/1000")


def _with_output(text: str, example: Example, output: str) -> str:
    if example.output is None or "…" in example.output:
        return text
    block = f"```{example.language}\n{example.code}```\n\n```text\n"
    before, after = text.split(block, 1)
    _, rest = after.split("```", 1)
    return f"{before}{block}{output.rstrip()}\n```{rest}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(Path(name).resolve())
