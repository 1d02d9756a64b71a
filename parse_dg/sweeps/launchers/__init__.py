"""Where the jobs of a sweep run: processes of this machine, Ray, SLURM."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
