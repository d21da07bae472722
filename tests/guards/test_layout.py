"""The shape of the repository: where files may lie, how long they get, and what their text never names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

LONGEST = 350


def test_kernels_and_widgets_hold_no_module_of_their_own(root: Path) -> None:
    for folder in ("kernels", "widgets"):
        assert not list((root / folder).glob("*.py")), f"{folder}/ is a folder, not an import package"


def test_files_are_short_and_say_what_they_are(root: Path, files: list[Path]) -> None:
    bad = []
    for path in files:
        name = path.relative_to(root)
        if path.suffix != ".py" or name.is_relative_to("lessons/src"):
            continue
        text = path.read_text(encoding="utf-8")
        if (length := text.count("\n")) > LONGEST:
            bad.append(f"{name} has {length} lines; the limit is {LONGEST}: split it by noun")
        if text.strip() and not ast.get_docstring(ast.parse(text)):
            bad.append(f"{name} has no docstring")
    assert not bad, "\n".join(bad)


def test_no_file_names_a_machine_or_a_registry(root: Path, files: list[Path]) -> None:
    folders = "|".join(["wor" + "k", "roo" + "t", "far" + "m"])
    hosts = "|".join(
        ["py" + "pi.org", "python" + "hosted", "registry.np" + "mjs", "deb.deb" + "ian", "download.pyt" + "orch"]
    )
    options = "|".join(["index" + "-url", "find" + "-links", "registry" + "=", '"resol' + 'ved":'])
    named = re.compile(rf"(?:^|[^a-zA-Z.])/(?:{folders})/|{hosts}|{options}", re.MULTILINE)
    bad = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        bad += [f"{path.relative_to(root)}: {match[0]!r}" for match in named.finditer(text)]
    assert not bad, "\n".join(bad)


def test_files_stay_small_enough_for_git(root: Path, files: list[Path]) -> None:
    limits = {".safetensors": 16_000_000}
    big = [path.relative_to(root) for path in files if path.stat().st_size > limits.get(path.suffix, 1_000_000)]
    assert not big


def test_transformers_works_from_the_root(root: Path) -> None:
    """A module in kernels/ would shadow another project of that name, which transformers looks for."""
    code = (
        "from transformers import LlamaConfig, LlamaForCausalLM as M;"
        "c = LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1);"
        "print(M(c).num_parameters() > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr
