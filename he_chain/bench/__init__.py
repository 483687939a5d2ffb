"""How fast single operations and matrix products are."""
