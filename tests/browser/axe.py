"""axe-core in a page: which rules of WCAG 2.2 A and AA it breaks, and what axe counts as good practice.

Invariant: the rules come from the installed package, so no test needs the network. A missing package is a skip with one
reason, or a failure when SPECDEC_REQUIRE_BROWSER=1. It does not know what the page shows.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
MISSING = "axe-core is missing: pip install axe-playwright-python"
RUN = """async tags => {
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame); // what follows a size has followed
  const rules = {"target-size": {enabled: true}};
  const {violations} = await axe.run(document, {runOnly: tags, rules, resultTypes: ["violations"]});
  return violations.flatMap(({id, help, nodes}) => nodes.map(({html}) => `${id}: ${help}: ${html.slice(0, 160)}`));
}"""


@cache
def rules() -> str:
    """Return axe-core as a script."""
    spec = find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        if os.environ.get("SPECDEC_REQUIRE_BROWSER") == "1":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


def violations(page: Any) -> list[str]:
    """Return what axe finds in the page as it stands."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(rules())
    found: list[str] = page.evaluate(RUN, TAGS)
    return found
