"""Jobs that owe vectors."""
