"""Run the command line with `python -m agentctx`."""

from agentctx.cli import main

if __name__ == "__main__":
    main()
