-- What the live version of an entry (`newer`) supersedes or resolves; its attributes say the same. Ids stay when the
-- older entry is gone. Whether it hides the older one is decided when that is asked for.
CREATE TABLE supersessions (
  older TEXT NOT NULL CHECK (older <> ''),
  newer TEXT NOT NULL CHECK (newer <> '' AND newer <> older),
  closed TEXT NOT NULL CHECK (closed IN ('superseded', 'resolved')),
  PRIMARY KEY (older, newer)
) STRICT, WITHOUT ROWID;

CREATE INDEX supersessions_newer ON supersessions (newer);
