"""Benchmarks: how fast, how large and how good the engine is on this machine.

README.md beside this file says what is measured and how the rival is built.
"""
