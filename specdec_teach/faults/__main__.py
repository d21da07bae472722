"""`python -m specdec_teach.faults`: make the kill matrix anew, the stored table and the page in docs/."""

from __future__ import annotations

from pathlib import Path

import torch

from specdec_teach.faults.matrix import write

if __name__ == "__main__":
    torch.set_num_threads(1)
    here = Path(__file__).resolve().parent
    docs = here.parent.parent / "docs"
    docs.mkdir(exist_ok=True)
    write(here, docs)
