"""A folder, a list, an archive or an address becomes a manifest: every image known, opened once and counted."""
