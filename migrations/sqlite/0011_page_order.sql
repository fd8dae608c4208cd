-- A page of all collections is read in its order, and a forget finds the answers that were remembered of an entry.
CREATE INDEX entries_order ON entries (namespace, seq, collection) WHERE live = 1;
CREATE INDEX idempotency_entry ON idempotency (entry);
