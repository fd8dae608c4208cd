"""Make sure a built model is in the cache: `python -m agentctx.embedding.providers.embedded`."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from agentctx.config.paths import cache_dir
from agentctx.embedding.providers.embedded.built_models import BUILT_MODELS, MINILM
from agentctx.embedding.providers.embedded.cache import ensure_built
from agentctx.errors import AgentctxError


def main(argv: Sequence[str] | None = None) -> int:
    """Print the model's location and return 0, or print the problem and return 1."""
    parser = argparse.ArgumentParser(prog="agentctx.embedding.providers.embedded", description=__doc__)
    parser.add_argument("--cache", type=Path, help="folder of the cache (default: this user's)")
    parser.add_argument("--model", choices=BUILT_MODELS, default=MINILM.name, help="default: %(default)s")
    options = parser.parse_args(argv)
    cache: Path = options.cache or cache_dir()
    try:
        path = ensure_built(cache, BUILT_MODELS[options.model])
    except AgentctxError as error:
        return _fail(f"{error.message} {error.hint}")
    except OSError as error:
        return _fail(f"the cache cannot be written: {error}")
    sys.stdout.write(f"The embedded model is ready: {path}\n")
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 1


if __name__ == "__main__":
    # The quantizer logs advice for developers through the root logger; users cannot act on it.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    sys.exit(main())
