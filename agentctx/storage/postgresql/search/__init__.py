"""Finding chunks, by words and by vectors."""
