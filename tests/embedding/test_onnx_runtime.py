from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import agentctx

PACKAGE = Path(agentctx.__file__).parent
CODE = """
import os
from agentctx.embedding.onnx_runtime import onnxruntime
onnxruntime()
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


def importers() -> set[str]:
    """Return the modules that import onnxruntime at run time, not only for its types."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import) and any(each.name == "onnxruntime" for each in node.names):
                found.add(file.name)
    return found


def test_it_is_imported_with_its_telemetry_off() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "1"


def test_there_is_no_other_way_to_it() -> None:
    assert importers() == {"onnx_runtime.py"}
