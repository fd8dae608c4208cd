"""Building the default model in another process, without blocking the loop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentctx.errors import ProviderFailed

COMMAND = "agentctx.embedding_providers.embedded"
PACKAGE_ROOT = Path(__file__).parents[3]


async def build_in_subprocess(cache: Path) -> None:
    """Make the model in `cache`, an absolute path; the process is killed when the caller is cancelled.

    Raises:
        ProviderFailed: it could not be made; the message holds the last line that was written (retry).
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", COMMAND, "--cache", str(cache)),
        # `-m` looks in the working directory first: it must be where this very package is.
        cwd=PACKAGE_ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ProviderFailed(
            f"The embedded model could not be built: {_reason(errors, process.returncode)}",
            hint=f"Run `{sys.executable} -m {COMMAND}` to see why.",
        )


def _reason(errors: bytes, code: int) -> str:
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"the process ended with {code}"
