"""What was done: the audit trail, and receipts of injections."""
