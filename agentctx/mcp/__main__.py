"""Entry point of `python -m agentctx.mcp`, the same as `agentctx mcp`."""

import sys

from agentctx.mcp.bridge import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
