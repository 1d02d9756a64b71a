"""A trained model behind HTTP on this machine: `parse-dg serve RUN`, with a page to drop an image on.

The way of an upload: `protocol` (bytes → a request, in bounded time and space) → `guard` (who may ask, how often) →
`app` (what can be asked) → `service`, which has it read and decoded (`body`: counted as it comes) and predicted
(`batcher`: several images, one pass of the network). `server` starts all this, with the extra `parse-dg[serve]`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
