-- Which vector store keeps the vectors of a space: `sqlite-vec` in this file, or one outside of it.
ALTER TABLE spaces ADD COLUMN vector_store TEXT NOT NULL DEFAULT 'sqlite-vec';

-- Vectors that a store outside of this file holds. A row comes before its vector and goes after it, so that no
-- vector out there is unknown here. `stored` is 0 while it is not known whether the present vector has arrived.
-- No reference to chunks: the row of a chunk that is gone stays until its vector is removed out there.
CREATE TABLE outside_vectors (
  space INTEGER NOT NULL REFERENCES spaces (id),
  chunk INTEGER NOT NULL,
  stored INTEGER NOT NULL CHECK (stored IN (0, 1)),
  PRIMARY KEY (space, chunk)
) STRICT, WITHOUT ROWID;

-- What is on its way, and what may have to be removed.
CREATE INDEX outside_unsettled ON outside_vectors (space, chunk) WHERE stored = 0;
