"""What a run will take, and where it is refreshed, before a key is made."""
