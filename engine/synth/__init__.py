"""Models with random weights of a real shape, for measurements of size and speed."""
