"""A still that a cell shows and a file keeps: SVG, its description in words, and its numbers as a table of text.

Invariant: the stored output is an <img> with a description and a stable text; equal inputs give equal bytes. It does
not know what is drawn.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from specdec_kernels.errors import InvalidInput
from specdec_widgets.still import tag

__all__ = ["Picture"]


@final
@dataclass(frozen=True, slots=True)
class Picture:
    """One still. `svg`: the picture; `words`: what it shows, in sentences; `table`: its numbers, as lines of text."""

    svg: str
    words: str
    table: str

    @property
    def image(self) -> str:
        """The picture as an <img> whose description is `words`."""
        return tag(self.svg, self.words)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the SVG to `path` and return the path; InvalidInput when it cannot be written."""
        target = Path(path)
        try:
            target.write_text(self.svg, encoding="utf-8")
        except OSError as error:
            raise InvalidInput(
                f"cannot write {target}: {error.strerror}; choose a folder that exists and is yours"
            ) from None
        return target

    def __repr__(self) -> str:
        return f"{self.words}\n{self.table}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.image}
