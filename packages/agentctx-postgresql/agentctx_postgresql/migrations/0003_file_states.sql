-- What the last look at an entry's file found, where that differs from the entry: stale, as the file could not be seen,
-- or withdrawn, as it is gone or says something else.
CREATE TABLE file_states (
  entry text COLLATE "C" PRIMARY KEY CHECK (entry <> ''),
  state text NOT NULL CHECK (state IN ('stale', 'withdrawn')),
  reason text NOT NULL,
  since bigint NOT NULL
);

-- A withdrawn entry is held back, too.
ALTER TABLE quarantine ADD COLUMN outdated boolean NOT NULL DEFAULT false;
ALTER TABLE quarantine DROP CONSTRAINT quarantine_check;
ALTER TABLE quarantine ADD CHECK (screened OR revocation IS NOT NULL OR outdated);
