"""A process that does not outlive the one that started it.

`python -P child.py PIPE MODULE ARGUMENT...` runs a module as `python -m` would. PIPE is the reading end of a pipe
that the parent holds open. However the parent ends, the kernel closes it, and the child is interrupted as by
Ctrl-C: it can save where it is. Run as a file, it listens before anything large is imported; -P, as the files
beside this one are not to be found as modules.
"""

import os
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

GRACE = 60.0
"""Seconds that a process has to save its work once it is interrupted."""


def follow(pipe: int) -> None:
    """Interrupt this thread, the main one, when the pipe's other end is closed; kill the process if it goes on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell would ignore it
    main = threading.get_ident()

    def watch() -> None:
        os.read(pipe, 1)  # nothing is ever written: it returns when the last writer is gone
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(GRACE)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    module = sys.argv[2]
    follow(int(sys.argv[1]))
    if (ours := str(Path(__file__).parents[3])) not in sys.path:  # a checkout; another version may be installed
        sys.path.insert(0, ours)
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
