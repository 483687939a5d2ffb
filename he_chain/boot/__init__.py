"""Protocol `boot`: bootstrapping instead of a key holder."""
