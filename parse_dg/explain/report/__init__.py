"""A run as one HTML file: what is on the page and how it is written."""
