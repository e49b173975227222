"""What README and docs hold that can be checked: code to run, and numbers that must be measured ones.

Code. Every ```python block is run by itself, in a new namespace; with `<!-- continues -->` on the line before it, after the
block above it in the same namespace. A line `print(...)  # text` must print that text.

Numbers. A measured number is quoted from docs/measurements.json and says so by a comment right before it that gives the path
of the value, `<!-- m:A6.measured.loss_60 -->0.0182`. Anything that looks measured (a number with a unit or `times`) and does
not say so is an error, unless it is a setting: `<!-- set -->20 s`. In a ```text block, which shows what a command prints, every
number with a decimal point must be, to the digits shown, somewhere in the measurements; `<!-- illustration -->` on the line
before exempts a block that shows a form and not a result.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MEASUREMENTS = ROOT / "docs" / "measurements.json"
FENCE = re.compile(
    r"^(?:<!-- (?P<note>[\w ]+) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
NUMBER = r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
QUOTED = re.compile(rf"<!-- m:(?P<path>[\w.\-]+) -->\s*(?P<number>{NUMBER})(?P<percent>\s*%)?")
UNIT = r"(?:\s*(?:%|×|ns\b|µs\b|us\b|ms\b|MB\b|MiB\b|GB\b|GiB\b)|\s(?:s|seconds|minutes|times)\b)"
LOOKS_MEASURED = re.compile(rf"(?<![\w.:-]){NUMBER}{UNIT}")
SET = re.compile(rf"<!-- set -->\s*{NUMBER}")
DECIMAL = re.compile(r"(?<![\w.])-?\d[\d,]*\.\d+(?:e[-+]?\d+)?(?![\w.])")


@dataclass
class Block:
    language: str
    note: str
    body: str
    line: int


def documents() -> list[Path]:
    """README and docs; not the decisions, each of which is a record of its day and carries its own figures."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(page for page in pages if "decisions" not in page.parts)]


def blocks(text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("body")) + 1
        yield Block(found["language"], found["note"] or "", found["body"], line)


def prose(text: str) -> str:
    """The text without its blocks and without `code`, lines kept."""
    without = FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`", "`code`", without)


def measurements() -> dict[str, object]:
    return json.loads(MEASUREMENTS.read_text()) if MEASUREMENTS.exists() else {}


def value_at(tree: object, path: str) -> float:
    """The number at `A6.measured.loss_60`; raises KeyError when there is none."""
    node = tree
    for part in path.split("."):
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            raise KeyError(path)
    if isinstance(node, bool) or not isinstance(node, (int, float)):
        raise KeyError(path)
    return node


def all_numbers(tree: object) -> Iterator[float]:
    if isinstance(tree, bool):
        return
    if isinstance(tree, (int, float)):
        yield tree
    elif isinstance(tree, (dict, list)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from all_numbers(part)


def is_rounded(shown: str, value: float) -> bool:
    """Whether the number as shown is the value, rounded to the digits shown."""
    text = shown.replace(",", "").replace("−", "-")
    mantissa, _, exponent = text.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(text) - value) <= unit / 2 * (1 + 1e-9)


def faults(text: str, measured: dict[str, object]) -> list[str]:
    """What the page quotes wrongly or without saying from where."""
    found: list[str] = []
    page = prose(text)
    for quote in QUOTED.finditer(page):
        try:
            value = value_at(measured, quote["path"])
        except KeyError:
            found.append(f"{quote['path']} is no number in docs/measurements.json")
            continue
        if not is_rounded(quote["number"], value * (100 if quote["percent"] and value <= 1 else 1)):
            found.append(f"{quote['path']} is {value}, quoted as {quote['number']}")
    rest = SET.sub("", QUOTED.sub("", page))
    found += [f"looks measured, and does not say where: {match[0]}" for match in LOOKS_MEASURED.finditer(rest)]
    known = list(all_numbers(measured))
    for block in blocks(text):
        if block.language == "text" and block.note != "illustration":
            shown = DECIMAL.findall(block.body)
            found += [
                f"line {block.line}: {number} was not measured"
                for number in shown
                if not any(is_rounded(number, value) for value in known)
            ]
    return found
