"""Access control: principals identified by the kernel, their grants, and the policies of routes."""
