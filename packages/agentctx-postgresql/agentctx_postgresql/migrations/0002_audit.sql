-- The audit trail is hashed here, with SHA-256 and no key: a statement records its rows in its own round trip.

-- A chain belongs to the transaction that has locked its row, and to no daemon any more.
ALTER TABLE audit_chains DROP COLUMN daemon;
DELETE FROM installation WHERE name = 'audit_chains' OR name LIKE 'audit_config %';

-- Adds rows to a chain that no other transaction has locked, or else to a new one, so that no save waits for the disk
-- write of another; or to `only_chain`, which its transaction has locked. The hashed text is what
-- `agentctx.storage.audit.hash_of` makes. A row that was added by hand is stepped over: `agentctx audit verify` finds it.
CREATE FUNCTION record_audit(
  ats bigint[], kinds text[], principals bigint[], namespaces text[], subjects text[], details text[],
  only_chain text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  own audit_chains;
  previous bytea;
BEGIN
  IF cardinality(kinds) = 0 THEN
    RETURN true;
  END IF;
  SELECT * INTO own FROM audit_chains WHERE chain = coalesce(only_chain, chain)
    ORDER BY chain LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF own IS NULL THEN
    INSERT INTO audit_chains VALUES (gen_random_uuid()::text, 0, '') RETURNING * INTO own;
  END IF;
  own.seq := greatest(own.seq, (SELECT max(seq) FROM audit WHERE chain = own.chain));
  FOR i IN 1 .. cardinality(kinds) LOOP
    own.seq := own.seq + 1;
    previous := own.hash;
    own.hash := sha256(convert_to(json_build_array(
      own.seq, ats[i], kinds[i], principals[i], namespaces[i], subjects[i], details[i], encode(previous, 'hex')
    )::text, 'UTF8'));
    INSERT INTO audit (chain, seq, at, kind, principal, namespace, subject, detail, previous_hash, hash)
    VALUES (own.chain, own.seq, ats[i], kinds[i], principals[i], namespaces[i], subjects[i], details[i],
      previous, own.hash);
  END LOOP;
  UPDATE audit_chains SET seq = own.seq, hash = own.hash WHERE chain = own.chain;
  RETURN true;
END $$;
