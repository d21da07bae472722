"""The verification rules: which drafts stand, and which token follows them.

Exact: `Rejection`, `Block`, `Coupled`. Lossy, and labelled so in every trace: `Typical`, `Threshold`, `Synthetic`.
"""

from __future__ import annotations

from collections.abc import Callable

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.rules.base import Rule, Verdict
from specdec_teach.rules.block import Block
from specdec_teach.rules.coupled import Coupled
from specdec_teach.rules.lossy import Synthetic, Threshold, Typical
from specdec_teach.rules.rejection import Rejection

__all__ = ["Block", "Coupled", "Rejection", "Rule", "Synthetic", "Threshold", "Typical", "Verdict", "rule_of"]

_BY_NAME: dict[str, Callable[[], Rule]] = {
    kind.name: kind for kind in (Rejection, Block, Coupled, Typical, Threshold, Synthetic)
}


def rule_of(given: object) -> Rule:
    """Return the rule for a name (with its usual parameters), or the rule itself; InvalidInput for anything else.

    >>> rule_of("block").lossless, rule_of(Threshold(0.2)).lossless
    (True, False)
    """
    if isinstance(given, (Rejection, Block, Coupled, Typical, Threshold, Synthetic)):
        return given
    if not isinstance(given, str):
        raise InvalidInput(f"verify={given!r}; give the name of a rule, or a rule such as sd.rules.Threshold(0.2)")
    if given not in _BY_NAME:
        raise unknown_name("rule verify=", given, _BY_NAME)
    return _BY_NAME[given]()
