"""Measuring a run with the secret key, the signed report, and checking one."""
