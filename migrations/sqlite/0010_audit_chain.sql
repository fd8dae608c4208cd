-- What was done that must stay known, each row with a keyed hash over itself and the hash of the row before.
-- Never a key or a text. Rows from before have no hash: they get theirs, in order, when the next row is added.
ALTER TABLE audit RENAME TO audit_before;
DROP INDEX audit_entry;
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind <> ''),
  -- The kernel's uid of who asked for it; NULL when the service did it by itself.
  principal INTEGER,
  namespace TEXT,
  -- What it was done to, most often the id of an entry.
  subject TEXT,
  detail TEXT NOT NULL,
  previous_hash BLOB,
  hash BLOB
) STRICT;
INSERT INTO audit (seq, at, kind, principal, subject, detail)
  SELECT seq, at, action, principal, entry, json_object('collection', collection) FROM audit_before;
DROP TABLE audit_before;

CREATE INDEX audit_forgotten ON audit (subject) WHERE kind = 'forget';

-- Ids whose row is too old to be kept in `audit`: nobody brings these entries back.
CREATE TABLE forgotten (
  entry TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
