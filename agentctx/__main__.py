"""`python -m agentctx` is the command line."""

from agentctx.cli import main

if __name__ == "__main__":
    main()
