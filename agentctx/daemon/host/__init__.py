"""The daemon's process and the machine it runs on."""
