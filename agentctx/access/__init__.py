"""Who may do what: principals by the kernel's word, what is granted to them, and what each route asks for."""
