-- What a conversation was given since it began, or lost what it held, is not injected there again.
ALTER TABLE injections ADD COLUMN restarted INTEGER NOT NULL DEFAULT 0 CHECK (restarted IN (0, 1));
CREATE INDEX injections_conversations ON injections (session, id);
