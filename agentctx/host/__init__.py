"""The process and the machine it runs on."""
