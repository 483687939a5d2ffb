"""The command `windhover`: one file per subcommand, one table of exit codes."""
