"""`python -m evenkeel.cli`: the same as the command `evenkeel`."""

import sys

from evenkeel.cli import main

sys.exit(main())
