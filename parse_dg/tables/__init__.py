"""Finished runs as records, model selection over them, and tables in every format."""
