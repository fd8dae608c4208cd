-- Entries that wait for a review: since when, in milliseconds; NULL: it does not wait. SQLite cannot change a CHECK.
CREATE TABLE quarantine_with_review (
  entry TEXT PRIMARY KEY CHECK (entry <> ''),
  -- 1: its text was flagged, or it was made of such an entry.
  screened INTEGER NOT NULL CHECK (screened IN (0, 1)),
  -- One of the revocations that hold it back.
  revocation INTEGER REFERENCES revocations (id),
  state TEXT NOT NULL CHECK (state IN ('held', 'withdrawn', 'returning', 'forgetting')),
  since INTEGER NOT NULL,
  -- 1: its file no longer says it.
  outdated INTEGER NOT NULL DEFAULT 0 CHECK (outdated IN (0, 1)),
  waiting INTEGER,
  CHECK (screened = 1 OR revocation IS NOT NULL OR outdated = 1 OR waiting IS NOT NULL)
) STRICT, WITHOUT ROWID;
INSERT INTO quarantine_with_review (entry, screened, revocation, state, since, outdated)
  SELECT entry, screened, revocation, state, since, outdated FROM quarantine;
DROP TABLE quarantine;
ALTER TABLE quarantine_with_review RENAME TO quarantine;
CREATE INDEX quarantine_unsettled ON quarantine (entry) WHERE state <> 'withdrawn';
CREATE INDEX quarantine_waiting ON quarantine (waiting) WHERE waiting IS NOT NULL;

-- Whether what an agent's hooks capture waits. Only a review makes `always` of it, and nothing else of that.
CREATE TABLE capture_modes (
  namespace TEXT NOT NULL CHECK (namespace <> ''),
  agent TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('auto', 'review', 'always')),
  since INTEGER NOT NULL,
  PRIMARY KEY (namespace, agent)
) STRICT, WITHOUT ROWID;
