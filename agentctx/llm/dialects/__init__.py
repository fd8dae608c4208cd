"""How each model API represents a conversation. Pure: no I/O, no changed argument, no exception."""
