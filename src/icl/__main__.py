"""`python -m icl`: see icl.report.command_line."""

import sys

from icl.report.command_line import main

if __name__ == "__main__":
    sys.exit(main())
