-- Each stored vector gets a number above all before it, also when it is stored again. So a copy of the vectors in
-- memory asks for what is new by number alone, and a number that is gone is a vector that is gone.
CREATE TABLE numbered_checksums (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  space INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  UNIQUE (space, chunk)
) STRICT;
INSERT INTO numbered_checksums (space, chunk, checksum)
  SELECT space, chunk, checksum FROM vector_checksums ORDER BY space, chunk;
DROP TABLE vector_checksums;
ALTER TABLE numbered_checksums RENAME TO vector_checksums;
