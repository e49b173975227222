"""README and docs say what is so: their code runs and prints what it says, their numbers are those of docs/measurements.json."""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.core.primitive import PRIMITIVES
from tests.house.documents import ROOT, Block, blocks, documents, faults, is_rounded, measurements

PROMISED = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
PAGES = documents()


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run(block: Block, namespace: dict[str, object]) -> None:
    """Run it; lines `print(...)  # text` must print their text, in this order and with nothing in between."""
    promised = PROMISED.findall(block.body)
    output = io.StringIO()
    # compile() gives tracebacks the line of the page
    code = compile("\n" * (block.line - 1) + block.body, "page", "exec")
    with contextlib.redirect_stdout(output):
        exec(code, namespace)
    if promised:
        assert output.getvalue().splitlines() == promised


@pytest.fixture
def records() -> Iterator[None]:
    """Records that a page declares are gone afterwards: other tests go over all there are."""
    before = dict(PRIMITIVES)
    np.exp(chainrule.tensor(1.0))  # the table of NumPy's functions is made of these
    yield
    PRIMITIVES.clear()
    PRIMITIVES.update(before)


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("page", PAGES, ids=names)
def test_code_runs_and_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # for the files that it writes
    namespace: dict[str, object] = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            namespace = namespace if block.note == "continues" else {"__name__": "page"}
            run(block, namespace)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_numbers_are_measured_ones(page: Path):
    assert faults(page.read_text(encoding="utf-8"), measurements()) == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


# ------------------------------------------------------------------------------------------------ the checks themselves
MEASURED: dict[str, object] = {"A6": {"measured": {"loss_60": 0.018213, "accuracy": 0.97, "times": [2.31]}}}


@pytest.mark.parametrize(
    "text",
    [
        "loss <!-- m:A6.measured.loss_60 -->0.0182",
        "loss <!-- m:A6.measured.loss_60 --> 1.82e-2",
        "<!-- m:A6.measured.accuracy -->97% right",
        "<!-- m:A6.measured.times.0 -->2.3 times faster",
        "finishes within <!-- set -->20 s",
        "Python 3.11, 337 parameters, 100 points, `0.5 s`",
        "```text\nloss 0.0182 after 60\n```",
        "<!-- illustration -->\n```text\nloss 0.5\n```",
    ],
)
def test_accepts(text: str):
    assert faults(text, MEASURED) == []


@pytest.mark.parametrize(
    "text",
    [
        "loss <!-- m:A6.measured.loss_60 -->0.0183",
        "loss <!-- m:A6.measured.loss_61 -->0.0182",
        "loss <!-- m:A6.measured -->0.0182",
        "2.3 times faster",
        "imports in 3 ms",
        "97% right",
        "```text\nloss 0.0192 after 60\n```",
    ],
)
def test_refuses(text: str):
    assert faults(text, MEASURED) != []


def test_rounding():
    assert is_rounded("1,234.5", 1234.4501)
    assert is_rounded("−2", -2.4)
    assert not is_rounded("2.31", 2.3)


def test_promised_output_is_compared():
    (right,) = blocks("```python\nprint(1 + 1)  # 2\n```")
    run(right, {})
    (wrong,) = blocks("```python\nprint(1 + 1)  # 3\n```")
    with pytest.raises(AssertionError):
        run(wrong, {})


def test_decisions_are_numbered_once():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))[1:]  # without the template
    numbers = [page.name[:3] for page in pages]
    assert numbers == sorted(set(numbers))
    assert [page.read_text(encoding="utf-8")[2:6] for page in pages] == [f"{number}:" for number in numbers]
