"""The interface as bytes: requests read and answers written, without any network."""
