"""Blueprints, the embedded benchmark: layouts of parts, drawn in four styles."""
