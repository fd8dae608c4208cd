"""Which formats of secrets are known (`rules.toml`), and how secrets are cut out of a text."""
