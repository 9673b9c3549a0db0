"""`python -m devtools.conformance CASES_DIR_OR_FILE...`"""

from __future__ import annotations

import sys

from devtools.conformance.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
