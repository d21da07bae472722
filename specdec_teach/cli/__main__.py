"""Run the command line as `python -m specdec_teach.cli`, for when the script is not on the path."""

import sys

from specdec_teach.cli import main

if __name__ == "__main__":
    sys.exit(main())
