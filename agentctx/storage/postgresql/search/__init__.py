"""Find chunks by words and by vectors."""
