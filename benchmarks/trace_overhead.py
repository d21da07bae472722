"""What does it cost to record a run? `specdec-teach bench recorder`, under the name that this script has always had.

python benchmarks/trace_overhead.py [--rounds 15] [--json FILE]
"""

from __future__ import annotations

import sys

from specdec_teach.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "recorder", *sys.argv[1:]]))
