"""PARSE-DG: image classifiers that keep working on domains they never saw, and show why.

The public names are in `__init__.pyi`, for type checkers and for Python, which imports a name at its first use:
`import parse_dg` and `parse-dg --help` do without PyTorch. `parse_dg.explain` is the function, not the room.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
