-- The turns of a session in their order; an edited turn keeps its place.
CREATE INDEX entries_turns ON entries (namespace, collection, session, created, seq) WHERE live = 1 AND session <> '';

-- A receipt says how relevant each candidate was, and from which relevance on one was injected. The scores of
-- earlier receipts compare with nothing, and receipts are kept for days only.
DELETE FROM injections;
ALTER TABLE injections DROP COLUMN max_distance;
ALTER TABLE injections DROP COLUMN words_worth;
ALTER TABLE injections ADD COLUMN gate REAL;
