-- A second model beside the one that answers: its space is building until it is switched to; the former one is
-- then building again by its state, and kept since `kept_since`, to be switched back to.
ALTER TABLE spaces ADD COLUMN kept_since INTEGER;
-- When somebody agreed to what it costs to fill the space.
ALTER TABLE spaces ADD COLUMN approved INTEGER;
-- How the space compares with the one that answered when it was filled.
ALTER TABLE spaces ADD COLUMN comparison TEXT CHECK (comparison IS NULL OR json_valid(comparison));

-- The spaces whose vectors are waited for: the one that answers; while there is none, all that are owed vectors.
CREATE VIEW awaited_spaces AS
  SELECT id FROM spaces
  WHERE enabled = 1
    AND (state = 'active' OR NOT EXISTS (SELECT 1 FROM spaces WHERE state = 'active' AND enabled = 1));

-- Each space has a queue of its own.
CREATE INDEX jobs_space ON jobs (space);
