"""Backbones: image → feature map."""
