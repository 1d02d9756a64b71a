"""Measurements: speed as ratios in one run, and the tables of docs/results.md."""
