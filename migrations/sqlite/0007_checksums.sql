-- Over every column of the row but `seq` and `content`, which `content_hash` stands for. Rows from before get
-- theirs when the database is opened next; from then on a row without one is damaged.
ALTER TABLE entries ADD COLUMN checksum BLOB;

-- Over a vector in its space and where it stands. Vectors from before have none and are not checked.
CREATE TABLE vector_checksums (
  space INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (space, chunk)
) STRICT, WITHOUT ROWID;

-- How far the background scrub has come: numbers by name.
CREATE TABLE scrub (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
