"""One run, from its configuration to its folder, and what can be asked of it afterwards."""
