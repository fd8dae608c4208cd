-- What an entry was made of. Ids are of entries, and stay when a source is gone.
CREATE TABLE derivations (
  entry TEXT NOT NULL CHECK (entry <> ''),
  source TEXT NOT NULL CHECK (source <> ''),
  PRIMARY KEY (entry, source)
) STRICT, WITHOUT ROWID;

CREATE INDEX derivations_source ON derivations (source);

-- What the text of a live entry looks like that an LLM might obey.
CREATE TABLE flags (
  entry TEXT NOT NULL CHECK (entry <> ''),
  flag TEXT NOT NULL CHECK (flag <> ''),
  PRIMARY KEY (entry, flag)
) STRICT, WITHOUT ROWID;

-- Who revoked which source: the criteria as JSON, never a text of an entry.
CREATE TABLE revocations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  principal INTEGER NOT NULL,
  criteria TEXT NOT NULL CHECK (json_valid(criteria)),
  entries INTEGER NOT NULL
) STRICT;

-- Entries that no answer may hold, from the row's commit on. Rows stay when their entry is gone, so that an
-- import does not bring it back unseen.
--   held ──► withdrawn: out of the indexes ──► returning ──► (no row)
--     └───────────────► forgetting ──► withdrawn, and the entry is gone
CREATE TABLE quarantine (
  entry TEXT PRIMARY KEY CHECK (entry <> ''),
  -- 1: its text was flagged, or it was made of such an entry.
  screened INTEGER NOT NULL CHECK (screened IN (0, 1)),
  revocation INTEGER REFERENCES revocations (id),
  state TEXT NOT NULL CHECK (state IN ('held', 'withdrawn', 'returning', 'forgetting')),
  since INTEGER NOT NULL,
  CHECK (screened = 1 OR revocation IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX quarantine_unsettled ON quarantine (entry) WHERE state <> 'withdrawn';
