"""A folder, a list, an archive or an address becomes a manifest: every image known, opened once and counted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
