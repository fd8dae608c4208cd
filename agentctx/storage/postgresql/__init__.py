"""The engine for a PostgreSQL server, which any number of daemons share."""
