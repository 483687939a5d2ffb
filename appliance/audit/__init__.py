"""Audits by re-execution: what follows from a request, a model and committed ids (SPEC.md 8)."""
