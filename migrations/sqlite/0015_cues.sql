-- A chunk is a piece of the content (cue 0) or the cue of this number among the entry's: searched, never shown.
ALTER TABLE chunks ADD COLUMN cue INTEGER NOT NULL DEFAULT 0 CHECK (cue BETWEEN 0 AND 8);

-- Key, tags and speaker are words of the text; with each cue they would count again.
DROP VIEW chunk_text;
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
