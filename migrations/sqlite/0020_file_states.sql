-- What the last look at an entry's file found, where that differs from the entry:
--   stale: the file could not be seen, so the entry stays in the answers
--   withdrawn: the file is gone or says something else, so the entry is kept, but is in no answer
CREATE TABLE file_states (
  entry TEXT PRIMARY KEY CHECK (entry <> ''),
  state TEXT NOT NULL CHECK (state IN ('stale', 'withdrawn')),
  reason TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- As before, and a withdrawn entry (`outdated`) is held back, too.
CREATE TABLE quarantine_new (
  entry TEXT PRIMARY KEY CHECK (entry <> ''),
  -- 1: its text was flagged, or it was made of such an entry.
  screened INTEGER NOT NULL CHECK (screened IN (0, 1)),
  revocation INTEGER REFERENCES revocations (id),
  state TEXT NOT NULL CHECK (state IN ('held', 'withdrawn', 'returning', 'forgetting')),
  since INTEGER NOT NULL,
  -- 1: its file no longer says it.
  outdated INTEGER NOT NULL DEFAULT 0 CHECK (outdated IN (0, 1)),
  CHECK (screened = 1 OR revocation IS NOT NULL OR outdated = 1)
) STRICT, WITHOUT ROWID;
INSERT INTO quarantine_new (entry, screened, revocation, state, since)
  SELECT entry, screened, revocation, state, since FROM quarantine;
DROP TABLE quarantine;
ALTER TABLE quarantine_new RENAME TO quarantine;
CREATE INDEX quarantine_unsettled ON quarantine (entry) WHERE state <> 'withdrawn';
