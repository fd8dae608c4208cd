-- Entries that wait for a review: since when, in milliseconds; NULL: it does not wait.
ALTER TABLE quarantine ADD COLUMN waiting bigint,
  DROP CONSTRAINT quarantine_check,
  ADD CONSTRAINT quarantine_check CHECK (screened OR revocation IS NOT NULL OR outdated OR waiting IS NOT NULL);
CREATE INDEX quarantine_waiting ON quarantine (waiting) WHERE waiting IS NOT NULL;

-- Whether what an agent's hooks capture waits. Only a review makes `always` of it, and nothing else of that.
CREATE TABLE capture_modes (
  namespace text COLLATE "C" NOT NULL CHECK (namespace <> ''),
  agent text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL CHECK (mode IN ('auto', 'review', 'always')),
  since bigint NOT NULL,
  PRIMARY KEY (namespace, agent)
);
