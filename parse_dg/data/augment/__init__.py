"""Augmentation of whole batches on their device, and of single images as torchvision does it."""
