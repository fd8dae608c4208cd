"""A fresh interpreter, which has loaded nothing of the tests."""

import subprocess
import sys


def modules_loaded_by(code: str) -> set[str]:
    """Return the names of all modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())
