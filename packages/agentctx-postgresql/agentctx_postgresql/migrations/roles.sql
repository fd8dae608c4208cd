-- Three roles for one memory: the owner changes the schema, daemons use it, readers only read. Run once in the empty
-- database, as a superuser: psql -d agentctx -f roles.sql. PostgreSQL 17 or newer, whose MAINTAIN lets a daemon vacuum
-- what it does not own. Then run `agentctx migrate` as the owner, and give daemons and readers their own passwords.
BEGIN;
CREATE ROLE agentctx_owner LOGIN;
CREATE ROLE agentctx_daemon LOGIN;
CREATE ROLE agentctx_reader LOGIN;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE, CREATE ON SCHEMA public TO agentctx_owner;
-- A daemon makes a table for the vectors of each model, which the owner has to be able to change later.
GRANT USAGE, CREATE ON SCHEMA public TO agentctx_daemon;
GRANT USAGE ON SCHEMA public TO agentctx_reader;
GRANT agentctx_daemon TO agentctx_owner;

ALTER DEFAULT PRIVILEGES FOR ROLE agentctx_owner IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE, REFERENCES, MAINTAIN ON TABLES TO agentctx_daemon;
ALTER DEFAULT PRIVILEGES FOR ROLE agentctx_owner IN SCHEMA public GRANT SELECT ON TABLES TO agentctx_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE agentctx_daemon IN SCHEMA public GRANT SELECT ON TABLES TO agentctx_reader;

-- Whose snapshots keep what was forgotten from leaving the tables, and which standbys are behind.
GRANT pg_read_all_stats TO agentctx_daemon, agentctx_reader;
-- `agentctx forget --rewrite` removes words of forgotten texts from the statistics, too.
GRANT MAINTAIN ON pg_catalog.pg_statistic TO agentctx_daemon;
COMMIT;
