-- Times are milliseconds since the epoch, UTC. The order of columns is that of existing databases.

-- ENTRIES -------------------------------------------------------------------------------------------------------------

-- One row a version; `id` is stable over versions, `seq` is the row.
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
  -- Over every column of the row but `seq` and `content`, which `content_hash` stands for.
  checksum BLOB,
  -- The time to live that was asked for: renewing one of the same length is no change.
  ttl INTEGER,
  UNIQUE (id, version)
) STRICT;

CREATE UNIQUE INDEX entries_live_id ON entries (id) WHERE live = 1;
CREATE UNIQUE INDEX entries_live_key ON entries (namespace, collection, key) WHERE live = 1 AND key IS NOT NULL;
-- Pages are in the order of the ids, which no edit changes, so that a walk over them misses nothing.
CREATE INDEX entries_page ON entries (namespace, collection, id) WHERE live = 1;
CREATE INDEX entries_order ON entries (namespace, id, collection) WHERE live = 1;
-- The turns of a session in their order; an edited turn keeps its place.
CREATE INDEX entries_turns ON entries (namespace, collection, session, created, seq) WHERE live = 1 AND session <> '';
CREATE INDEX entries_expires ON entries (expires) WHERE live = 1 AND expires IS NOT NULL;
-- Most entries are of trust `agent`; a question that leaves the others out looks them up here.
CREATE INDEX entries_trust ON entries (namespace, trust) WHERE live = 1 AND trust <> 'agent';

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

-- A forget finds the answers of an entry. Its id begins with the time of its creation, so old keys are found here too.
CREATE INDEX idempotency_entry ON idempotency (entry, created);

-- CHUNKS AND WORDS ----------------------------------------------------------------------------------------------------

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
  -- 0: a piece of the content; otherwise the cue of this number among the entry's: searched, never shown.
  cue INTEGER NOT NULL DEFAULT 0 CHECK (cue BETWEEN 0 AND 8),
  UNIQUE (entry, ordinal)
) STRICT;

-- Key, tags and speaker are words of the text; with each cue they would count again.
CREATE VIEW chunk_text AS
  SELECT chunks.id AS id,
         CASE chunks.cue
           WHEN 0 THEN substr(entries.content, chunks.start_at + 1, chunks.end_at - chunks.start_at)
           -- Damaged attributes would fail the whole statement.
           ELSE CASE WHEN json_valid(entries.attributes)
             THEN json_extract(entries.attributes, '$.cues[' || (chunks.cue - 1) || ']') END
         END AS text,
         CASE chunks.cue WHEN 0 THEN entries.labels ELSE '' END AS labels,
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

-- VECTORS -------------------------------------------------------------------------------------------------------------

-- One model's vectors. The vec0 table of a space, vec_<id>, is made when its dimension is known. While a second model
-- is prepared beside the one that answers, its space is building until it is switched to.
CREATE TABLE spaces (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL CHECK (json_valid(fingerprint)),
  generation INTEGER NOT NULL CHECK (generation > 0),
  state TEXT NOT NULL CHECK (state IN ('building', 'active', 'retired')),
  enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  dimension INTEGER CHECK (dimension > 0),
  canary BLOB,
  created INTEGER NOT NULL,
  -- The space answered before: it is building again, and kept since then to be switched back to.
  kept_since INTEGER,
  -- When somebody agreed to what it costs to fill the space.
  approved INTEGER,
  -- How the space compares with the one that answered when it was filled.
  comparison TEXT CHECK (comparison IS NULL OR json_valid(comparison)),
  UNIQUE (fingerprint, generation),
  CHECK ((dimension IS NULL) = (canary IS NULL)),
  CHECK (NOT (state = 'retired' AND enabled = 1))
) STRICT;

CREATE UNIQUE INDEX spaces_active ON spaces (state) WHERE state = 'active';

-- The spaces whose vectors are waited for: the one that answers; while there is none, all that are owed vectors.
CREATE VIEW awaited_spaces AS
  SELECT id FROM spaces
  WHERE enabled = 1
    AND (state = 'active' OR NOT EXISTS (SELECT 1 FROM spaces WHERE state = 'active' AND enabled = 1));

-- Over a vector in its space and where it stands. Each stored vector gets a number above all before it, also when it is
-- stored again. So a copy of the vectors in memory asks for what is new by number alone, and a number that is gone is a
-- vector that is gone.
CREATE TABLE vector_checksums (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  space INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  UNIQUE (space, chunk)
) STRICT;

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

-- Each space has a queue of its own.
CREATE INDEX jobs_space ON jobs (space);

-- TRUST ---------------------------------------------------------------------------------------------------------------

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

-- An entry may be held back by several revocations, and comes back when the last of them is undone.
CREATE TABLE revoked (
  entry TEXT NOT NULL CHECK (entry <> ''),
  revocation INTEGER NOT NULL REFERENCES revocations (id),
  PRIMARY KEY (entry, revocation)
) STRICT, WITHOUT ROWID;

CREATE INDEX revoked_revocation ON revoked (revocation);

-- Entries that no answer may hold, from the row's commit on. Rows stay when their entry is gone, so that an
-- import does not bring it back unseen.
--   held ──► withdrawn: out of the indexes ──► returning ──► (no row)
--     └───────────────► forgetting ──► withdrawn, and the entry is gone
CREATE TABLE quarantine (
  entry TEXT PRIMARY KEY CHECK (entry <> ''),
  -- 1: its text was flagged, or it was made of such an entry.
  screened INTEGER NOT NULL CHECK (screened IN (0, 1)),
  -- One of the revocations that hold it back.
  revocation INTEGER REFERENCES revocations (id),
  state TEXT NOT NULL CHECK (state IN ('held', 'withdrawn', 'returning', 'forgetting')),
  since INTEGER NOT NULL,
  -- 1: its file no longer says it.
  outdated INTEGER NOT NULL DEFAULT 0 CHECK (outdated IN (0, 1)),
  CHECK (screened = 1 OR revocation IS NOT NULL OR outdated = 1)
) STRICT, WITHOUT ROWID;

CREATE INDEX quarantine_unsettled ON quarantine (entry) WHERE state <> 'withdrawn';

-- What the last look at an entry's file found, where that differs from the entry:
--   stale: the file could not be seen, so the entry stays in the answers
--   withdrawn: the file is gone or says something else, so the entry is kept, but is in no answer
CREATE TABLE file_states (
  entry TEXT PRIMARY KEY CHECK (entry <> ''),
  state TEXT NOT NULL CHECK (state IN ('stale', 'withdrawn')),
  reason TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- RECORDS -------------------------------------------------------------------------------------------------------------

-- What was done that must stay known, each row with a keyed hash over itself and the hash of the row before.
-- Never a key or a text of an entry.
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind <> ''),
  -- The kernel's uid of who asked for it; NULL when the service did it by itself.
  principal INTEGER,
  namespace TEXT,
  -- What it was done to, most often the id of an entry.
  subject TEXT,
  detail TEXT NOT NULL,
  -- NULL in both: the row is hashed when the next one is added.
  previous_hash BLOB,
  hash BLOB
) STRICT;

CREATE INDEX audit_forgotten ON audit (subject) WHERE kind = 'forget';

-- Ids whose row is too old to be kept in `audit`: nobody brings these entries back.
CREATE TABLE forgotten (
  entry TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Receipts of injections: what was put into LLM calls, or why nothing was. Ids and figures, never the text of
-- an entry, so that nothing has to be taken out when an entry is forgotten.
CREATE TABLE injections (
  id TEXT PRIMARY KEY,
  created INTEGER NOT NULL,
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  principal INTEGER,
  position TEXT NOT NULL CHECK (position IN ('system', 'tail')),
  question_hash TEXT NOT NULL,
  -- Only when the operator wants prompts stored.
  question TEXT,
  degraded TEXT,
  rerank TEXT,
  -- The best candidates, an array of their figures for each, and how many had each fate.
  candidates TEXT NOT NULL CHECK (json_valid(candidates)),
  fates TEXT NOT NULL CHECK (json_valid(fates)),
  budget_tokens INTEGER NOT NULL CHECK (budget_tokens > 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  milliseconds REAL NOT NULL,
  block_hash TEXT,
  -- From which relevance on a candidate was injected.
  gate REAL,
  -- A question may ask several namespaces: an array of their names.
  namespaces TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(namespaces)),
  -- 1: the conversation began, or lost what it held; what it was given since is not injected there again.
  restarted INTEGER NOT NULL DEFAULT 0 CHECK (restarted IN (0, 1)),
  conversation TEXT NOT NULL DEFAULT '',
  CHECK ((tokens = 0) = (block_hash IS NULL))
) STRICT;

CREATE INDEX injections_created ON injections (created);
-- A question is taken out when an entry that its receipt names is forgotten.
CREATE INDEX injections_questions ON injections (created) WHERE question IS NOT NULL;
CREATE INDEX injections_conversations ON injections (conversation, id);

-- UPKEEP --------------------------------------------------------------------------------------------------------------

-- What is made once for an installation, like the secret of the fence.
CREATE TABLE installation (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- How far the background scrub has come: numbers by name.
CREATE TABLE scrub (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
