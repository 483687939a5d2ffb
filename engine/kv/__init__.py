"""The key/value cache: blocks of 64 positions behind a table of addresses."""
