-- An entry may be held back by several revocations, and comes back when the last of them is undone.
-- `quarantine.revocation` is one of them.
CREATE TABLE revoked (
  entry TEXT NOT NULL CHECK (entry <> ''),
  revocation INTEGER NOT NULL REFERENCES revocations (id),
  PRIMARY KEY (entry, revocation)
) STRICT, WITHOUT ROWID;
INSERT INTO revoked (entry, revocation) SELECT entry, revocation FROM quarantine WHERE revocation IS NOT NULL;

CREATE INDEX revoked_revocation ON revoked (revocation);
