"""A trained model as a file: load it, make it small, use it."""
