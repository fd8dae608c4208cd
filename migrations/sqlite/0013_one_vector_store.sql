-- Vectors are in this file only. A space whose vectors were elsewhere is retired: its model gets a new one, which
-- is owed everything.
DELETE FROM jobs WHERE space IN (SELECT id FROM spaces WHERE vector_store <> 'sqlite-vec');
UPDATE spaces SET state = 'retired', enabled = 0 WHERE vector_store <> 'sqlite-vec';

DROP TABLE outside_vectors;
ALTER TABLE spaces DROP COLUMN vector_store;
