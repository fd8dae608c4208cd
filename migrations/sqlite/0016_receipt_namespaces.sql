-- A question may ask several namespaces: an array of their names. Receipts are diagnostics, so the old ones go.
DELETE FROM injections;
ALTER TABLE injections DROP COLUMN namespace;
ALTER TABLE injections ADD COLUMN namespaces TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(namespaces));
