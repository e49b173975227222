"""One quick run, and what it must leave: figures, a page, and numbers that are right by other means than its own."""

import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from scipy.special import softmax

ROWS = (
    {f"A{k}" for k in range(1, 10)}
    | {f"B{k}" for k in range(1, 9)}
    | {f"C{k}" for k in range(1, 9)}
    | {"D1", "D2", "D3"}
)
FIGURES = {
    "arms", "broadcasting", "characters", "cost", "cross_entropy", "digits", "least_squares", "line", "moons_boundary",
    "moons_learning", "optimizers", "orders", "spiral",
    "graph_neuron_builtin", "graph_tensor_step_builtin", "graph_worked_example_builtin",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walkthrough") / "deep" / "results"
    command = [sys.executable, "-m", "chainrule.cli", "walkthrough", "--quick", "--out", str(folder)]
    return folder, subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def rows(run):
    return json.loads((run[0] / "measurements.json").read_text("utf-8"))


def test_all_is_as_it_should_be(run):
    _, done = run
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"│ {row} " in done.stdout for row in ROWS)
    assert "[1/14]" in done.stderr  # no terminal: a line a stage


def test_nothing_but_results_is_left(run):
    folder, _ = run
    assert {path.name for path in folder.iterdir()} == {"figures", "index.html", "measurements.json"}


def numbers(entry):
    """What a tree of dictionaries and lists holds; None stands for what a quick run leaves out."""
    if isinstance(entry, (dict, list)):
        return [n for inner in (entry.values() if isinstance(entry, dict) else entry) for n in numbers(inner)]
    return [] if entry is None else [entry]


def test_schema(rows):
    assert set(rows) > ROWS
    for row in ROWS:
        entry = rows[row]
        assert {"what", "measured", "reference", "agrees", "found", "expected", "note", "seconds"} == set(entry), row
        assert entry["measured"]
        assert all(isinstance(value, (int, float)) for value in numbers(entry["measured"])), row
    assert rows["seeds"] == [1000, 1001, 1002, 1003, 1004]
    assert rows["quick"] is True
    assert {"date", "machine", "versions", "seconds"} < set(rows)


def test_figures(run):
    folder, _ = run
    names = {path.stem for path in (folder / "figures").glob("*.png")}
    assert names >= FIGURES
    for name in names:
        with Image.open(folder / "figures" / f"{name}.png") as image:
            assert len(image.convert("L").getcolors(maxcolors=256)) > 20, f"{name} is blank"
        assert ET.parse(folder / "figures" / f"{name}.svg").getroot().tag.endswith("svg")
        assert not name.startswith("graph_") or (folder / "figures" / f"{name}.dot").read_text().startswith("digraph")


class Page(HTMLParser):
    """What a page loads, links to and says."""

    def __init__(self):
        super().__init__()
        self.loads, self.links, self.ids, self.text = [], [], set(), ""

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids.add(named.get("id"))
        if tag in {"img", "script", "link", "iframe"}:
            self.loads.append(named.get("src") or named.get("href"))
        elif tag == "a":
            self.links.append(named["href"])

    def handle_data(self, data):
        self.text += data


def test_page_is_whole_and_needs_no_network(run, rows):
    folder, _ = run
    source = (folder / "index.html").read_text("utf-8")
    page = Page()
    page.feed(source)
    assert len(page.loads) >= 11
    for target in page.loads + page.links:
        assert target[1:] in page.ids if target.startswith("#") else (folder / target).is_file(), target
    assert "http" not in re.sub(r"xmlns\S+", "", source)
    assert all(rows[row]["found"] in page.text for row in ROWS)


# ------------------------------------------------------------------------------- numbers, by other means


def test_worked_example(rows):
    step = 1e-6

    def loss(w=0.5, x=2.0, b=1.0, y=3.0):
        return ((w * x + b) - y) ** 2

    measured = rows["A3"]["measured"]
    assert measured["loss"] == loss()
    for name, at in (("w", 0.5), ("x", 2.0), ("b", 1.0), ("y", 3.0)):
        slope = (loss(**{name: at + step}) - loss(**{name: at - step})) / (2 * step)
        assert measured[f"d{name}"] == pytest.approx(slope, abs=1e-8)


def test_line_against_least_squares(rows):
    x = np.arange(100_000) / 100_000
    y = (np.arange(100_000) - 1) / 100_000
    (w, b), *_ = np.linalg.lstsq(np.column_stack([x, np.ones_like(x)]), y, rcond=None)
    for engine in ("scalar", "tensor", "closed_form"):
        assert rows["A7"]["measured"][f"{engine}_w"] == pytest.approx(w, abs=1e-6)
        assert rows["A7"]["measured"][f"{engine}_b"] == pytest.approx(b, abs=1e-6)


def test_moons_reach_the_reference_in_the_mean(rows):
    measured = rows["A6"]["measured"]
    assert measured["loss_20"] <= 0.0984
    assert measured["accuracy_20"] >= 0.96
    assert measured["loss_60"] <= 0.0182
    assert measured["accuracy_60"] == 1.0
    assert measured["further_loss_60"] <= 0.0182


def test_engines_agree_at_every_step(rows):
    measured = rows["B1"]["measured"]
    assert measured["losses_compared"] == 61
    assert measured["largest_loss_difference"] <= 1e-6
    assert measured["largest_score_difference"] <= 1e-6
    assert measured["scalar_nodes"] > 1000 * measured["tensor_nodes"]


def test_node_counts_from_the_structure_of_the_network(rows):
    """A neuron of n inputs on one point: n products, n additions, perhaps a relu; a point is two constants per neuron."""
    weights = 337
    per_point = sum(units * (2 * inputs + (units > 1)) for inputs, units in ((2, 16), (16, 16), (16, 1)))
    measured = rows["B6"]["measured"]
    floor = weights + 200 * per_point
    assert floor < measured["scalar_nodes"] < floor + 200 * 50
    assert measured["fewer_nodes"] == pytest.approx(measured["scalar_nodes"] / measured["tensor_nodes"])


def test_exact_rows(rows):
    assert rows["A9"]["measured"]["largest_first_difference"] == 0.0
    assert rows["A9"]["measured"]["largest_second_difference"] == 0.0
    assert rows["B5"]["measured"]["largest_units_in_the_last_place"] <= 1.0
    assert rows["B2"]["measured"]["wrong_shapes"] == 0


def test_what_the_rows_compare_with_is_right():
    """The walkthrough's own expectations, against SciPy."""
    from chainrule.walkthrough.tensors import exact_softmax

    z = np.random.default_rng(0).normal(size=(5, 7)) + 1e4
    np.testing.assert_allclose(exact_softmax(z).astype(float), softmax(z, axis=1), rtol=1e-14)


def test_training_lands_on_the_closed_form_and_adam_does_not_stay(rows):
    assert max(rows["C1"]["measured"]["relative_error"]) < 1e-14
    assert max(rows["C2"]["measured"]["annealed"]) < 1e-14
    assert min(rows["C2"]["measured"]["farthest_of_last_2000"]) > 1e-6


def test_sweeps_bracket_their_best_rate(rows):
    measured = rows["C5"]["measured"]
    for name in ("SGD", "momentum", "Adam"):
        swept = measured[name]["swept"]
        assert min(swept) < measured[name]["rate"] < max(swept)
    assert all(step < 400 for step in measured["Adam"]["steps_to_threshold"])


def test_networks_reach_the_reference(rows):
    assert np.mean(rows["C3"]["measured"]["test_accuracy"]) >= 0.9
    assert np.mean(rows["C4"]["measured"]["mlp_test_accuracy"]) >= 0.97  # of two seeds
    assert np.mean(rows["C4"]["measured"]["cnn_test_accuracy"]) >= 0.98


def test_entropies_of_a_text_by_counting():
    from chainrule.walkthrough.characters import entropies

    text = "to be or not to be, that is the question"
    single, after = entropies(text)
    share = {c: text.count(c) / len(text) for c in set(text)}
    assert single == pytest.approx(-sum(p * math.log(p) for p in share.values()), rel=1e-12)
    total = 0.0
    for first in set(text[:-1]):
        follows = [b for a, b in pairwise(text) if a == first]
        for c in set(follows):
            p = follows.count(c) / len(follows)
            total -= len(follows) / (len(text) - 1) * p * math.log(p)
    assert after == pytest.approx(total, rel=1e-9)
