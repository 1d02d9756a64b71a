"""What is read of an image file at most: the same in a data set, a prediction and an upload."""

MAX_PIXELS = 50_000_000
"""Images that claim more are refused before any pixel is decoded."""
MAX_BYTES = 2**29
"""Longer files are not read: no image within MAX_PIXELS needs as much."""
