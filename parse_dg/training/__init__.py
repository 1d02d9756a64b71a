"""The loop that trains any algorithm, and what it leaves behind."""
