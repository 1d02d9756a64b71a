"""Blueprints, the embedded benchmark: layouts of parts, drawn in four styles."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
