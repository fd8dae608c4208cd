-- What ranking takes from a chunk's text (agentctx/storage/passage_traits.py); NULL in chunks of earlier releases and in
-- cues: then their text is read.
ALTER TABLE chunks ADD COLUMN words INTEGER;
ALTER TABLE chunks ADD COLUMN speaker TEXT;
ALTER TABLE chunks ADD COLUMN asks INTEGER;
ALTER TABLE chunks ADD COLUMN times INTEGER;
