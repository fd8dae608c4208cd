-- Receipts of injections: what was put into LLM calls, or why nothing was. Ids and figures, never the text of
-- an entry, so that nothing has to be taken out when an entry is forgotten.
CREATE TABLE injections (
  id TEXT PRIMARY KEY,
  created INTEGER NOT NULL,
  namespace TEXT NOT NULL CHECK (namespace <> ''),
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  principal INTEGER,
  position TEXT NOT NULL CHECK (position IN ('system', 'tail')),
  question_hash TEXT NOT NULL,
  -- Only when the operator wants prompts stored.
  question TEXT,
  max_distance REAL,
  words_worth REAL,
  degraded TEXT,
  rerank TEXT,
  -- The best candidates, an array of their figures for each, and how many had each fate.
  candidates TEXT NOT NULL CHECK (json_valid(candidates)),
  fates TEXT NOT NULL CHECK (json_valid(fates)),
  budget_tokens INTEGER NOT NULL CHECK (budget_tokens > 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  milliseconds REAL NOT NULL,
  block_hash TEXT,
  CHECK ((tokens = 0) = (block_hash IS NULL))
) STRICT;

CREATE INDEX injections_created ON injections (created);
