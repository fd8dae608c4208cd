"""How each API of a model writes a conversation. Pure: no I/O, no changed argument, no exception."""
