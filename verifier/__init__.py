"""Checks what an appliance signed about an answer, with nothing but the standard library."""
