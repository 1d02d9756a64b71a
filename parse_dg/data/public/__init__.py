"""What each public benchmark is: its domains, classes, published counts, addresses and splits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
