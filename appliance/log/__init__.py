"""The log of an appliance: an append-only Merkle tree in files, with one writer.

README.md in this folder is its specification. `create_log` makes a log, `Log` writes one, and
`LogFiles` reads one.
"""
