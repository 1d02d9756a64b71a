"""Many runs: what is to be trained, what it will cost, and the loop that gets it done."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
