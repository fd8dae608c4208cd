-- Most entries are of trust `agent`; a question that leaves the others out looks them up here.
CREATE INDEX entries_trust ON entries (namespace, trust) WHERE live = 1 AND trust <> 'agent';
