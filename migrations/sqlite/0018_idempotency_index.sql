-- An entry's id begins with the time of its creation, so old keys are found by the ids of their entries: a save
-- writes one index less.
DROP INDEX idempotency_created;
DROP INDEX idempotency_entry;
CREATE INDEX idempotency_entry ON idempotency (entry, created);
