"""The storage engine on a PostgreSQL server, which any number of daemons can share."""
