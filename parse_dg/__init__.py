"""PARSE-DG: image classifiers that keep working on domains they never saw, and show why.

The public names are in `__init__.pyi`, for type checkers and for Python, which imports a name at its first use:
`import parse_dg` and `parse-dg --help` do without PyTorch. `parse_dg.explain` is the function, not the room.
"""

import os

import lazy_loader

if "OMP_WAIT_POLICY" not in os.environ:
    # Threads that wait for others sleep after some microseconds. By default they spin for milliseconds, which makes
    # training many times slower on a machine that is busy with other work. Read when PyTorch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    os.environ.setdefault("KMP_BLOCKTIME", "1")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
