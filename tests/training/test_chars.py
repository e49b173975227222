"""`make chars`: several seeds, their mean and spread in the form of the measurements, and PyTorch beside them."""

import csv
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from chainrule.training import characters
from chainrule.training.history import History
from chainrule.training.loop import Run
from scripts import chars, publish


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(np.random.default_rng(0).choice(list("abcdef \n"), 2000)))
    return str(path)


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["chars", *map(str, words)])
    monkeypatch.setattr(chars, "keep_pages", lambda: None)  # would hold for all tests after this one
    return chars.main()


def test_mean_and_spread_over_seeds(text, tmp_path, monkeypatch, capsys):
    words = ["--text", text, "--preset", "tiny", "--iterations", 5, "--seeds", 2, "--seed", 3, "--out", tmp_path]
    assert call(monkeypatch, *words) == 0
    losses = [
        Run(characters.build(characters.CharacterSettings.made(text=text, iterations=5, seed=seed))).finish()
        for seed in (3, 4)
    ]
    losses = [outcome["validation_loss"] for outcome in losses]
    page = json.loads((tmp_path / "chars.json").read_text())
    assert page["seeds"] == [3, 4]
    row = page["C6"]
    assert row["measured"]["losses"] == losses
    assert row["measured"]["validation_loss"] == statistics.mean(losses)
    assert row["measured"]["spread"] == statistics.stdev(losses)
    assert row["measured"]["text"] == characters.digest(Path(text).read_text())
    assert (row["agrees"], row["reference"]) == (None, None)  # nanoGPT's figure is for another text
    assert "mean of 2 seeds" in capsys.readouterr().out
    with (tmp_path / "chars.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == [
        "step",
        "chainrule 3 loss",
        "chainrule 3 validation_loss",
        "chainrule 4 loss",
        "chainrule 4 validation_loss",
    ]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2", "3", "4", "5"]
    assert (tmp_path / "chars.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_published(text, tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "RESULTS", tmp_path)
    monkeypatch.setattr(publish, "PUBLISHED", tmp_path / "measurements.json")
    assert publish.characters() is None
    (tmp_path / "measurements.json").write_text('{"chars": {"C6": 1}}')
    assert publish.characters() == {"C6": 1}
    (tmp_path / "chars.json").write_text('{"C6": 2}')
    assert publish.characters() == {"C6": 2}


def test_the_figure_of_nanogpt_counts_on_its_text():
    run = chars.Trained("chainrule", 0, 10.0, 1.88, History(["validation_loss"]))
    settings = characters.CharacterSettings.made(preset="cpu")
    assert chars.measurement([run], [], settings, chars.SHAKESPEARE).agrees is True
    assert chars.measurement([run._replace(validation_loss=1.89)], [], settings, chars.SHAKESPEARE).agrees is False


def test_beside_pytorch(text, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    words = [
        "--text",
        text,
        "--preset",
        "tiny",
        "--iterations",
        3,
        "--seeds",
        1,
        "--out",
        tmp_path,
        "--against-pytorch",
    ]
    assert call(monkeypatch, *words) == 0
    measured = json.loads((tmp_path / "chars.json").read_text())["C6"]["measured"]
    assert measured["pytorch_validation_loss"] == pytest.approx(measured["validation_loss"], rel=1e-4)
    with (tmp_path / "chars.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["PyTorch 0 loss"]) for row in rows[1:]] == pytest.approx(
        [float(row["chainrule 0 loss"]) for row in rows[1:]], rel=1e-4
    )
