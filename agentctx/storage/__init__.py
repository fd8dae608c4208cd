"""What the service keeps, behind one protocol."""
