"""The work of the daemon, free of HTTP."""
