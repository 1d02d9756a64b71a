"""One run, from its configuration to its folder, and what can be asked of it afterwards."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
