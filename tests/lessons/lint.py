"""Rules for a lesson: what it must contain, and what its text and its stored outputs must not.

A rule takes a notebook and returns complaints, none for a good one. Invariant: a rule reads the notebook alone, so each
can be tried on a small bad one (test_lint.py). It does not know whether what a lesson says is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lessons.build import ADDRESS, NOTEBOOKS

__all__ = ["ACRONYMS", "RULES", "Rule", "code_cells", "glossary", "misspelt", "outputs", "undefined"]

FEWEST_OUTPUTS = 3
FORBIDDEN = ("Output(", "interact(", "clear_output", "tqdm", "%pip", "!pip", "update_display")
# 1.5 ms, 3 seconds, 12:34:56
TIMING = re.compile(r"\d ?(?:ns|µs|us|ms|s|sec|secs|seconds?|it/s)\b|\b\d{1,2}:\d{2}:\d{2}\b")
PARTS = {
    "objectives": r"^After it you can$",
    "a control": r"(?i)\bcontrols?\b|must fail|cannot fail",
    "try it yourself": r"^## Try it yourself$",
    "honest limits": r"^## Honest limits$",
    "a list to tick": r"(?:^- \[ \] .+\n(?:  .+\n)*){4,}",
    "a recap": r"^## In 60 seconds$",
    "red flags": r"^\*\*Red flags\*\*",
    "follow-up questions": r"(?:<details><summary>[^<]*\?</summary>.*?</details>\s*){3,}",
    "where to read more": r"^## Where to read more$",
}
ACRONYMS = {
    "KV": r"keys and values|K and V",
    "TV": r"total variation|TV = 1",
    "EOS": r"end token|end of (?:the )?(?:text|sequence)",
    "CDF": r"cumulative",
    "FLOP": r"floating.point|one multiplication, one addition",
    "GEMV": r"matrix-\*?vector",
    "GEMM": r"matrix-\*?matrix",
    "NaN": r"(?i)not a number|every (?:sum|logit)",
    "BPE": r"byte.pair",
    "MoE": r"mixture of experts",
    "SSM": r"state.space",
    "RoPE": r"rotary",
    "GQA": r"grouped",
}
REACH = 700
"""How many letters may stand between an acronym's first use and its explanation."""
# The lefts of a list are never right; the rights are for the message.
SPELLING = dict(
    re.findall(
        r"(\w+):(\S+)",
        """
        teh:the hte:the taht:that thier:their adn:and wich:which becuase:because untill:until recieve:receive
        seperate:separate seperately:separately occured:occurred occurence:occurrence definately:definitely
        accross:across succesful:successful neccessary:necessary transfered:transferred refered:referred
        prefered:preferred begining:beginning acheive:achieve arguement:argument independant:independent
        existance:existence foward:forward lenght:length heigth:height paralell:parallel parrallel:parallel
        persistant:persistent probablity:probability propery:property similiar:similar sucess:success
        suprise:surprise truely:truly wierd:weird writting:writing adress:address alot:a-lot reponse:response
        enviroment:environment paramter:parameter intial:initial matirx:matrix resdiual:residual
        acceptence:acceptance distribtion:distribution verfiy:verify tokenzier:tokenizer speculatve:speculative
        dependancy:dependency consistant:consistent relevent:relevant recomend:recommend overriden:overridden
        maintainance:maintenance publically:publicly occuring:occurring agressive:aggressive calcuate:calculate
        """,
    )
)
DOUBLED = re.compile(r"\b([a-z]{2,})[ \t]*(?:[ \t]|\n)[ \t]*\1\b", re.IGNORECASE)
MAY_DOUBLE = {"that", "had", "token"}  # the first token token 0

Rule = Callable[[Any], list[str]]


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: Any) -> Iterator[Any]:
    return (output for cell in code_cells(notebook) for output in cell.outputs)


def compared(output: Any) -> str:
    """Return the text of an output that nbval compares."""
    return str(output.get("text", "") or output.get("data", {}).get("text/plain", ""))


def markdown(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def prose(text: str) -> str:
    """Return markdown without its fenced code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def number_of(notebook: Any) -> str:
    return str(notebook.cells[0].source[2:4])


def a_title_and_the_minutes(notebook: Any) -> list[str]:
    titles = re.findall(r"^# .+", prose(markdown(notebook)), re.MULTILINE)
    head, minutes = notebook.cells[0].source, notebook.metadata.lesson.minutes
    bad = [] if len(titles) == 1 else [f"{len(titles)} titles: {titles}; one line may begin with '# '"]
    if not re.match(r"# \d\d · \S", head):
        bad.append("the first line is not '# NN · Title'")
    if not re.search(rf"^\*\*{minutes} minutes · (?:easy|medium|hard) · .*you need.*?\*\*", head, re.M | re.S):
        bad.append(f"no line '**{minutes} minutes · easy, medium or hard · you need …**' at the top")
    return bad


def all_parts(notebook: Any) -> list[str]:
    text = markdown(notebook) + "\n"
    return [f"no {name}" for name, mark in PARTS.items() if not re.search(mark, text, re.MULTILINE | re.DOTALL)]


def exercises_with_hints(notebook: Any) -> list[str]:
    """Every lesson but the first has predictions and exercises; each exercise is checked and has three hints."""
    number, code = number_of(notebook), "\n".join(cell.source for cell in code_cells(notebook))
    asked = set(re.findall(rf'^predict\("({number}\.\w+)"', code, re.MULTILINE))
    checked = set(re.findall(rf'^check\("({number}\.\d+)"', code, re.MULTILINE))
    bad = []
    if number != "00" and not asked:
        bad.append("nothing is predicted")
    if number != "00" and not checked:
        bad.append("no exercise")
    sections = re.split(rf"^### Exercise (?={number}\.\d)", markdown(notebook), flags=re.MULTILINE)[1:]
    announced = {section[: len(number) + 2] for section in sections}
    bad += [f"exercise {one} is announced and not checked" for one in sorted(announced - checked - asked)]
    bad += [f"exercise {one} is checked and not announced" for one in sorted(checked - announced)]
    for section in sections:
        hints = re.findall(r"<summary>Hint (\d)", section)
        if hints != ["1", "2", "3"]:
            bad.append(f"exercise {section[:4]} has the hints {hints}; give 1, 2 and 3")
    return bad


def enough_outputs(notebook: Any) -> list[str]:
    promised = notebook.metadata.lesson.outputs
    found = sum(bool(compared(output).strip()) for output in outputs(notebook))
    bad = [] if found >= promised else [f"{found} compared outputs, {promised} are promised"]
    return bad if promised >= FEWEST_OUTPUTS else [*bad, f"{promised} promised; {FEWEST_OUTPUTS} is the least"]


def nothing_that_changes(notebook: Any) -> list[str]:
    """No timing, address, progress bar or installer in what is compared."""
    bad = [f"prints {found[0]!r}" for o in outputs(notebook) if (found := TIMING.search(compared(o)))]
    bad += [f"prints {found[0]!r}" for o in outputs(notebook) if (found := ADDRESS.search(compared(o)))]
    return bad + [f"uses {word!r}" for word in FORBIDDEN for cell in code_cells(notebook) if word in cell.source]


def words_for_pictures(notebook: Any) -> list[str]:
    html = [output.data.get("text/html", "") for output in outputs(notebook) if "data" in output]
    tags = re.findall(r"<img\b[^>]*>", "".join([markdown(notebook), *html]))
    bad = [f"no alt text: {tag[:80]}" for tag in tags if not re.search(r'\balt="[^"]+"', tag)]
    bad += [f"no words in {found}" for found in re.findall(r"!\[\s*\]\([^)]*\)", markdown(notebook))]
    for output in outputs(notebook):
        for kind in (kind for kind in output.get("data", {}) if kind.startswith("image/")):
            if not (output.metadata.get(kind, {}).get("alt") or "text/html" in output.data):
                bad.append("a bare picture has no alt text")
    return bad


def links_that_resolve(notebook: Any) -> list[str]:
    bad = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(markdown(notebook))):
        file = target.partition("#")[0]
        if target.startswith(("#", "https://")):
            continue
        # A learner's folder holds the notebooks and nothing else.
        if not re.fullmatch(r"\d\d_[a-z_]+\.ipynb", file) or not (NOTEBOOKS / file).exists():
            bad.append(f"{target} is no lesson and no https address")
    return bad


def glossary(path: Path = NOTEBOOKS / "GLOSSARY.md") -> dict[str, str]:
    """Return each word of the glossary and the number of the lesson where it is met."""
    return dict(re.findall(r"^\| ([^|]+?) \| [^|]+ \| (\d\d) \|$", path.read_text(encoding="utf-8"), re.MULTILINE))


def undefined(text: str, number: str, known: dict[str, str]) -> list[str]:
    """Return the acronyms that are neither explained near their first use nor in the glossary for an earlier lesson."""
    text = re.sub(
        r"^(?:#.*|- (?:\[ \] )?.*)$", "", text, flags=re.MULTILINE
    )  # headings and lists announce, they do not use
    bad = []
    for short, meaning in ACRONYMS.items():
        used = re.search(rf"\b{short}s?\b", text)
        before = any(short in re.findall(r"\w+", word) and lesson < number for word, lesson in known.items())
        if used and not before and not re.search(meaning, text[: used.end() + REACH]):
            bad.append(f"{short} is used and not explained")
    return bad


def acronyms_explained(notebook: Any) -> list[str]:
    return undefined(prose(markdown(notebook)), number_of(notebook), glossary())


def misspelt(text: str) -> list[str]:
    """Return frequent misspellings and doubled words of a markdown text; code is left alone."""
    text = re.sub(r"`[^`\n]*`|https?://\S+", " ` ", prose(text))
    words = re.findall(r"[A-Za-z]+", text)
    bad = [f"{word}: {SPELLING[word.lower()]}" for word in words if word.lower() in SPELLING]
    return bad + [f"twice: {found[0]!r}" for found in DOUBLED.finditer(text) if found[1].lower() not in MAY_DOUBLE]


def spelling(notebook: Any) -> list[str]:
    return misspelt(markdown(notebook))


Rules = 0
RULES: tuple[Rule, ...] = (
    a_title_and_the_minutes,
    all_parts,
    exercises_with_hints,
    enough_outputs,
    nothing_that_changes,
    words_for_pictures,
    links_that_resolve,
    acronyms_explained,
    spelling,
)
