"""Augmentation of whole batches on their device, and of single images as torchvision does it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
