-- The time to live that was asked for: renewing one of the same length is no change.
ALTER TABLE entries ADD COLUMN ttl bigint;

-- Pages are in the order of the ids, which no edit changes, so that a walk over them misses nothing.
DROP INDEX entries_page;
DROP INDEX entries_order;
CREATE INDEX entries_page ON entries (namespace, collection, id) WHERE live;
CREATE INDEX entries_order ON entries (namespace, id, collection) WHERE live;

-- A conversation and a session are two things; before, a receipt had the one or the other.
ALTER TABLE injections ADD COLUMN conversation text COLLATE "C" NOT NULL DEFAULT '';
UPDATE injections SET conversation = session;
DROP INDEX injections_conversations;
CREATE INDEX injections_conversations ON injections (conversation, id);
