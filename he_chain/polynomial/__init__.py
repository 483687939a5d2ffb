"""Layers in which everything is a polynomial, so that a key holder only refreshes."""
