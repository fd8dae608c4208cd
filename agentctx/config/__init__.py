"""The settings: their schema, how they are loaded, and the paths of this machine."""
