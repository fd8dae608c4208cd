-- Receipts of injections: why the judge took no part.
ALTER TABLE injections ADD COLUMN judge TEXT;
