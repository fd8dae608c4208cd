-- Tables mean what those of SQLite's schema mean; times are milliseconds since the epoch, UTC, by the server's clock.
-- The order of columns is that of existing databases.

-- ENTRIES -------------------------------------------------------------------------------------------------------------

-- Entries: one row a version; `id` is stable over versions, `seq` is the row.
CREATE TABLE entries (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- The transaction of the last change. With many writers a sequence is no order of commits; `xid8` with a
  -- snapshot is.
  x xid8 NOT NULL DEFAULT pg_current_xact_id(),
  id text COLLATE "C" NOT NULL,
  version integer NOT NULL CHECK (version > 0),
  live boolean NOT NULL,
  namespace text COLLATE "C" NOT NULL CHECK (namespace <> ''),
  collection text COLLATE "C" NOT NULL CHECK (collection <> ''),
  key text COLLATE "C",
  session text COLLATE "C" NOT NULL,
  agent text COLLATE "C" NOT NULL,
  content text NOT NULL,
  content_hash bytea NOT NULL,
  -- `json` keeps the text: `jsonb` would change numbers.
  attributes json NOT NULL,
  labels text NOT NULL,
  header text NOT NULL,
  origin text NOT NULL CHECK (origin IN ('user', 'agent', 'tool', 'document', 'import', 'capture')),
  trust text NOT NULL CHECK (trust IN ('operator', 'agent', 'external')),
  principal bigint NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  -- Bytes of content and cues, so that quotas read an index only.
  size bigint NOT NULL,
  -- The time to live that was asked for: renewing one of the same length is no change.
  ttl bigint,
  UNIQUE (id, version)
);

CREATE UNIQUE INDEX entries_live_id ON entries (id) WHERE live;
CREATE UNIQUE INDEX entries_live_key ON entries (namespace, collection, key) WHERE live AND key IS NOT NULL;
-- Pages are in the order of the ids, which no edit changes, so that a walk over them misses nothing.
CREATE INDEX entries_page ON entries (namespace, collection, id) WHERE live;
CREATE INDEX entries_order ON entries (namespace, id, collection) WHERE live;
CREATE INDEX entries_expires ON entries (expires) WHERE live AND expires IS NOT NULL;
CREATE INDEX entries_trust ON entries (namespace, trust) WHERE live AND trust <> 'agent';
CREATE INDEX entries_turns ON entries (namespace, collection, session, created, seq) WHERE live AND session <> '';
CREATE INDEX entries_export ON entries (x) WHERE live;
CREATE INDEX entries_usage ON entries (principal) INCLUDE (size);

-- ANALYZE would copy values of these into pg_statistic, where a forgotten text stays until the next one.
ALTER TABLE entries
  ALTER key SET STATISTICS 0, ALTER content SET STATISTICS 0, ALTER attributes SET STATISTICS 0,
  ALTER labels SET STATISTICS 0, ALTER header SET STATISTICS 0;

-- Answers to requests that carried an Idempotency-Key, written by the transaction of the save.
CREATE TABLE idempotency (
  principal bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  entry text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  change text NOT NULL,
  created bigint NOT NULL,
  PRIMARY KEY (principal, key)
);
CREATE INDEX idempotency_created ON idempotency (created);
CREATE INDEX idempotency_entry ON idempotency (entry);

-- CHUNKS AND WORDS ----------------------------------------------------------------------------------------------------

-- Chunks of live versions: entries.content[start_at:end_at] in code points (cue 0), or the cue of this number among
-- the entry's.
CREATE TABLE chunks (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  entry bigint NOT NULL REFERENCES entries (seq),
  ordinal integer NOT NULL,
  cue integer NOT NULL DEFAULT 0 CHECK (cue BETWEEN 0 AND 8),
  start_at integer NOT NULL CHECK (start_at >= 0),
  end_at integer NOT NULL CHECK (end_at > start_at),
  hash bytea NOT NULL,
  chunking integer NOT NULL,
  UNIQUE (entry, ordinal)
);

-- The words of each chunk: our own terms with their positions, and BM25's weight of each term (dimension: crc32 of
-- the term). Statistics of the terms tell how rare each is.
CREATE TABLE chunk_words (
  chunk bigint PRIMARY KEY REFERENCES chunks (id),
  namespace text COLLATE "C" NOT NULL,
  words tsvector NOT NULL,
  weights sparsevec(1000000000) NOT NULL
) WITH (autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE chunk_words ALTER words SET STATISTICS 1000, ALTER weights SET STATISTICS 0;
CREATE INDEX chunk_words_terms ON chunk_words USING gin (words);
CREATE INDEX chunk_words_namespace ON chunk_words (namespace);

-- VECTORS -------------------------------------------------------------------------------------------------------------

-- One model's vectors. The table vec_<id> of a space is made when its dimension is known:
--   vec_<id> (chunk bigint PRIMARY KEY REFERENCES chunks, namespace text, x xid8, embedding halfvec(dimension))
CREATE TABLE spaces (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  fingerprint text NOT NULL,
  generation integer NOT NULL CHECK (generation > 0),
  state text NOT NULL CHECK (state IN ('building', 'active', 'kept', 'retired')),
  enabled boolean NOT NULL,
  dimension integer CHECK (dimension > 0),
  canary bytea,
  approved bigint,
  comparison json,
  created bigint NOT NULL,
  UNIQUE (fingerprint, generation),
  CHECK ((dimension IS NULL) = (canary IS NULL)),
  CHECK (NOT (state = 'retired' AND enabled))
);

CREATE UNIQUE INDEX spaces_active ON spaces (state) WHERE state = 'active';

-- The spaces whose vectors are waited for: the one that answers; while there is none, all that are owed vectors.
CREATE VIEW awaited_spaces AS
  SELECT id FROM spaces
  WHERE enabled
    AND (state = 'active' OR NOT EXISTS (SELECT 1 FROM spaces WHERE state = 'active' AND enabled));

-- Called by the statement of a save with the enabled spaces that it sees, and whether its audit rows follow the end of
-- their chain; fails it unless both still hold. Until its transaction ends, no space is enabled or disabled: this is the
-- shared lock on the spaces. Each statement of a function sees what was committed before it, also after waiting.
CREATE FUNCTION confirm_save(seen integer[], follows boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(4207002);
  IF NOT follows OR seen <> ARRAY(SELECT id FROM spaces WHERE enabled ORDER BY id) THEN
    RAISE serialization_failure;
  END IF;
  RETURN true;
END $$;

-- Removes the chunks of a version with their jobs, vectors and words, in one round trip. Each statement of a function
-- sees what was committed before it: a `complete` has stored its vector by then, or finds its job gone.
CREATE FUNCTION remove_chunks(version bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[] := ARRAY(SELECT id FROM chunks WHERE entry = version);
  space integer;
BEGIN
  DELETE FROM jobs WHERE chunk = ANY (ids);
  FOR space IN SELECT id FROM spaces WHERE dimension IS NOT NULL AND state <> 'retired'
      AND to_regclass('vec_' || id) IS NOT NULL LOOP
    EXECUTE format('DELETE FROM vec_%s WHERE chunk = ANY ($1)', space) USING ids;
  END LOOP;
  DELETE FROM chunk_words WHERE chunk = ANY (ids);
  DELETE FROM chunks WHERE entry = version;
END $$;

-- The outbox: embeddings still owed, written in the transaction of their entry. A row is updated once (the lease)
-- and deleted once: room for HOT updates, no index on what a claim changes, and an early autovacuum.
CREATE TABLE jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  chunk bigint NOT NULL REFERENCES chunks (id),
  -- No reference: it would have every save lock the one row of the space.
  space integer NOT NULL,
  hash bytea NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'buried')),
  attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  not_before bigint NOT NULL DEFAULT 0,
  -- Until then no other daemon than `daemon` claims it.
  leased_until bigint NOT NULL DEFAULT 0,
  daemon text,
  -- Leased by the save to the daemon that has it in memory, which may claim it all the same.
  reserved boolean NOT NULL DEFAULT false,
  last_error text,
  created bigint NOT NULL,
  UNIQUE (chunk, space),
  CHECK (state = 'pending' OR last_error IS NOT NULL)
) WITH (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX jobs_due ON jobs (space, id) WHERE state = 'pending';

-- TRUST ---------------------------------------------------------------------------------------------------------------

-- What an entry was made of, and what its text looks like that an LLM might obey.
CREATE TABLE derivations (
  entry text COLLATE "C" NOT NULL CHECK (entry <> ''),
  source text COLLATE "C" NOT NULL CHECK (source <> ''),
  PRIMARY KEY (entry, source)
);
CREATE INDEX derivations_source ON derivations (source);

CREATE TABLE flags (
  entry text COLLATE "C" NOT NULL CHECK (entry <> ''),
  flag text COLLATE "C" NOT NULL CHECK (flag <> ''),
  PRIMARY KEY (entry, flag)
);

-- Who revoked which source: the criteria, never a text of an entry.
CREATE TABLE revocations (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  principal bigint NOT NULL,
  criteria json NOT NULL,
  entries integer NOT NULL
);

-- Entries that no answer may hold, from the row's commit on.
--   held ──► withdrawn: out of the indexes ──► returning ──► (no row)
--     └───────────────► forgetting ──► withdrawn, and the entry is gone
CREATE TABLE quarantine (
  entry text COLLATE "C" PRIMARY KEY CHECK (entry <> ''),
  screened boolean NOT NULL,
  revocation integer REFERENCES revocations (id),
  state text NOT NULL CHECK (state IN ('held', 'withdrawn', 'returning', 'forgetting')),
  since bigint NOT NULL,
  -- Its file no longer says it.
  outdated boolean NOT NULL DEFAULT false,
  CHECK (screened OR revocation IS NOT NULL OR outdated)
);
CREATE INDEX quarantine_unsettled ON quarantine (entry) WHERE state <> 'withdrawn';

CREATE TABLE revoked (
  entry text COLLATE "C" NOT NULL CHECK (entry <> ''),
  revocation integer NOT NULL REFERENCES revocations (id),
  PRIMARY KEY (entry, revocation)
);
CREATE INDEX revoked_revocation ON revoked (revocation);

-- What the last look at an entry's file found, where that differs from the entry: stale, as the file could not be seen,
-- or withdrawn, as it is gone or says something else.
CREATE TABLE file_states (
  entry text COLLATE "C" PRIMARY KEY CHECK (entry <> ''),
  state text NOT NULL CHECK (state IN ('stale', 'withdrawn')),
  reason text NOT NULL,
  since bigint NOT NULL
);

-- RECORDS -------------------------------------------------------------------------------------------------------------

-- The audit trail: several chains, since one would have all saves take turns. `place` orders the rows of all chains
-- for pages; `seq` counts the rows of a chain.
CREATE TABLE audit (
  chain text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  place bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  at bigint NOT NULL,
  kind text COLLATE "C" NOT NULL CHECK (kind <> ''),
  principal bigint,
  namespace text COLLATE "C",
  subject text COLLATE "C",
  detail text NOT NULL,
  previous_hash bytea NOT NULL,
  hash bytea NOT NULL,
  PRIMARY KEY (chain, seq)
);
CREATE INDEX audit_subject ON audit (subject);

-- Where each chain ends. Its row is locked from a deed to its commit, so there is a chain for each connection that
-- writes. A daemon has some to itself, for its groups of saves: it knows their ends without reading them.
CREATE TABLE audit_chains (
  chain text COLLATE "C" PRIMARY KEY,
  seq bigint NOT NULL,
  hash bytea NOT NULL,
  daemon text COLLATE "C"
);

-- Ids whose row is too old to be kept in `audit`: nobody brings these entries back.
CREATE TABLE forgotten (
  entry text COLLATE "C" PRIMARY KEY,
  at bigint NOT NULL
);

-- Receipts of injections: ids and figures, never the text of an entry.
CREATE TABLE injections (
  id text COLLATE "C" PRIMARY KEY,
  created bigint NOT NULL,
  namespaces json NOT NULL,
  session text COLLATE "C" NOT NULL,
  agent text COLLATE "C" NOT NULL,
  principal bigint,
  restarted boolean NOT NULL,
  position text NOT NULL CHECK (position IN ('system', 'tail')),
  question_hash text NOT NULL,
  question text,
  gate double precision,
  degraded text,
  rerank text,
  candidates json NOT NULL,
  fates json NOT NULL,
  budget_tokens integer NOT NULL CHECK (budget_tokens > 0),
  tokens integer NOT NULL CHECK (tokens >= 0),
  milliseconds double precision NOT NULL,
  block_hash text,
  conversation text COLLATE "C" NOT NULL DEFAULT '',
  CHECK ((tokens = 0) = (block_hash IS NULL))
);
ALTER TABLE injections ALTER question SET STATISTICS 0;
CREATE INDEX injections_created ON injections (created);
CREATE INDEX injections_questions ON injections (created) WHERE question IS NOT NULL;
CREATE INDEX injections_conversations ON injections (conversation, id);

-- UPKEEP --------------------------------------------------------------------------------------------------------------

-- What is made once for an installation, like the secret of the fence.
CREATE TABLE installation (
  name text PRIMARY KEY,
  value bytea NOT NULL
);

-- Which daemon does what only one may do at a time, until when. Another takes over once the time is past.
CREATE TABLE upkeep_leases (
  task text COLLATE "C" PRIMARY KEY,
  daemon text NOT NULL,
  until bigint NOT NULL
);

-- The daemons that have the database open, and when each was last heard of.
CREATE TABLE daemons (
  daemon text COLLATE "C" PRIMARY KEY,
  seen bigint NOT NULL
);

-- How far background work has come: numbers by name.
CREATE TABLE progress (
  name text COLLATE "C" PRIMARY KEY,
  value bigint NOT NULL
);

-- Entries that were erased a short while ago, for the daemons that have something of them in memory.
CREATE TABLE erasures (
  x xid8 NOT NULL DEFAULT pg_current_xact_id(),
  entry text COLLATE "C" NOT NULL,
  at bigint NOT NULL
);
CREATE INDEX erasures_x ON erasures (x);
CREATE INDEX erasures_at ON erasures (at);
