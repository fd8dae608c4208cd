"""Models of our own: how each was made, and what it can do. Not part of the installed program."""
