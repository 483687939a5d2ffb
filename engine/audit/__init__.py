"""Computing an answer again, whole or in single units, to compare it with what was committed to."""
