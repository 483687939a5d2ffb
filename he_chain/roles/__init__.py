"""The two sides of a run, each in a process and a folder of its own."""
