"""Grammars that an answer must follow, as masks over the vocabulary."""
