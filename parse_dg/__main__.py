"""`python -m parse_dg`."""

import sys

from parse_dg.cli import main

sys.exit(main())
