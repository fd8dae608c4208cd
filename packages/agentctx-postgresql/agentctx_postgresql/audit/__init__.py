"""The audit trail, and receipts of injections."""
