-- What was done that must stay known: who removed which entry, and when. Never its key or its content.
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  -- The kernel's uid of who asked for it; NULL when the service did it by itself.
  principal INTEGER,
  action TEXT NOT NULL CHECK (action <> ''),
  entry TEXT,
  collection TEXT,
  -- For a chain of rows, each with the hash of the one before.
  previous_hash BLOB,
  hash BLOB
) STRICT;

CREATE INDEX audit_entry ON audit (entry);

-- Receipts that hold a question, which is taken out when an entry they name is forgotten.
CREATE INDEX injections_questions ON injections (created) WHERE question IS NOT NULL;
