"""SQLite: the driver, one writer with group commit, a pool of readers, migrations."""
