-- Entries: one row a version; `id` is stable over versions, `seq` is the row.
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  live INTEGER NOT NULL CHECK (live IN (0, 1)),
  namespace TEXT NOT NULL CHECK (namespace <> ''),
  collection TEXT NOT NULL CHECK (collection <> ''),
  key TEXT,
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  content TEXT NOT NULL,
  content_hash BLOB NOT NULL,
  attributes TEXT NOT NULL CHECK (json_valid(attributes)),
  labels TEXT NOT NULL,
  header TEXT NOT NULL,
  scope TEXT NOT NULL,
  origin TEXT NOT NULL CHECK (origin IN ('user', 'agent', 'tool', 'document', 'import', 'capture')),
  trust TEXT NOT NULL CHECK (trust IN ('operator', 'agent', 'external')),
  principal INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER,
  UNIQUE (id, version)
) STRICT;

CREATE UNIQUE INDEX entries_live_id ON entries (id) WHERE live = 1;
CREATE UNIQUE INDEX entries_live_key ON entries (namespace, collection, key) WHERE live = 1 AND key IS NOT NULL;
CREATE INDEX entries_page ON entries (namespace, collection, seq) WHERE live = 1;
CREATE INDEX entries_expires ON entries (expires) WHERE live = 1 AND expires IS NOT NULL;

-- Chunks of live versions. Content is not copied: a chunk is entries.content[start_at:end_at] in code points.
-- AUTOINCREMENT, because a vector or a late reply must never meet another text under its chunk's id.
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  entry INTEGER NOT NULL REFERENCES entries (seq),
  ordinal INTEGER NOT NULL,
  start_at INTEGER NOT NULL CHECK (start_at >= 0),
  end_at INTEGER NOT NULL CHECK (end_at > start_at),
  hash BLOB NOT NULL,
  terms TEXT NOT NULL,
  chunking INTEGER NOT NULL,
  UNIQUE (entry, ordinal)
) STRICT;

CREATE VIEW chunk_text AS
  SELECT chunks.id AS id,
         substr(entries.content, chunks.start_at + 1, chunks.end_at - chunks.start_at) AS text,
         entries.labels AS labels,
         chunks.terms AS terms,
         entries.scope AS scope
  FROM chunks JOIN entries ON entries.seq = chunks.entry;

-- External content over a slicing view leaves nothing behind after a secure deletion.
CREATE VIRTUAL TABLE chunk_fts USING fts5(
  text, labels, terms, scope,
  content = 'chunk_text', content_rowid = 'id', tokenize = 'porter unicode61'
);
INSERT INTO chunk_fts (chunk_fts, rank) VALUES ('secure-delete', 1);
-- The scope column only narrows a question; it must not count.
INSERT INTO chunk_fts (chunk_fts, rank) VALUES ('rank', 'bm25(1.0, 1.0, 1.0, 0.0)');

-- One model's vectors. The vec0 table of a space is made when its dimension is known.
CREATE TABLE spaces (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL CHECK (json_valid(fingerprint)),
  generation INTEGER NOT NULL CHECK (generation > 0),
  state TEXT NOT NULL CHECK (state IN ('building', 'active', 'retired')),
  enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  dimension INTEGER CHECK (dimension > 0),
  canary BLOB,
  created INTEGER NOT NULL,
  UNIQUE (fingerprint, generation),
  CHECK ((dimension IS NULL) = (canary IS NULL)),
  CHECK (NOT (state = 'retired' AND enabled = 1))
) STRICT;

CREATE UNIQUE INDEX spaces_active ON spaces (state) WHERE state = 'active';

-- The outbox: embeddings still owed, written in the transaction of their entry.
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  chunk INTEGER NOT NULL REFERENCES chunks (id),
  space INTEGER NOT NULL REFERENCES spaces (id),
  hash BLOB NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'buried')),
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  not_before INTEGER NOT NULL,
  leased_until INTEGER NOT NULL,
  last_error TEXT,
  created INTEGER NOT NULL,
  UNIQUE (chunk, space),
  CHECK (state = 'pending' OR last_error IS NOT NULL)
) STRICT;

-- Answers to requests that carried an Idempotency-Key, until they are forgotten.
CREATE TABLE idempotency (
  principal INTEGER NOT NULL,
  key TEXT NOT NULL,
  digest BLOB NOT NULL,
  entry TEXT NOT NULL,
  version INTEGER NOT NULL,
  change TEXT NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_created ON idempotency (created);

-- What is made once for an installation, like the secret of the fence.
CREATE TABLE installation (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
