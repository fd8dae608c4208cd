"""Files and folders into the memory, and in step with it."""
