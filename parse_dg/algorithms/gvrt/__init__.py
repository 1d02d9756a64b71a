"""GVRT: a classifier that must also explain itself in words, with its words, decoder and sentence encoders."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
