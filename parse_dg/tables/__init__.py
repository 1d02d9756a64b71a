"""Finished runs as records, model selection over them, and tables in every format."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
