"""Access control: principals as the kernel reports them, their grants, and what each route requires."""
