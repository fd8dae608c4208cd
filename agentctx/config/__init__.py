"""Settings: the schema, where they are loaded from, and the paths of this machine."""
