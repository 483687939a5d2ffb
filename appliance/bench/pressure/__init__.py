"""A service under load: many clients, some of them rude, and what has to hold all the same."""
