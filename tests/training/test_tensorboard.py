"""TensorBoard's own reader finds in the events what the log holds, also after a run went on."""

import csv
import sys
import warnings

import pytest

from chainrule.training import events
from tests.training.commands import said

pytest.importorskip("tensorboard")


def read(folder):
    """Each tag's values by step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library's own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util import tensor_util

        found = EventAccumulator(str(folder / events.FOLDER), size_guidance={"tensors": 0})
        found.Reload()
        return {
            tag: [(event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in found.Tensors(tag)]
            for tag in found.Tags()["tensors"]
        }


@pytest.mark.filterwarnings("ignore:::tensorboard")
def test_events_are_those_of_the_log(tmp_path, capsys):
    words = ["--no-progress", "--tensorboard"]
    assert said(capsys, "train", "spiral", "--epochs", 25, "--out", tmp_path / "run", *words)[0] == 0
    assert said(capsys, "train", "spiral", "--epochs", 45, "--resume", tmp_path / "run", *words)[0] == 0
    with (tmp_path / "run" / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = read(tmp_path / "run")
    assert found.keys() == {"loss/training", "rate", "test/loss", "test/accuracy"}
    for tag, column in (
        ("loss/training", "loss"),
        ("rate", "rate"),
        ("test/loss", "test_loss"),
        ("test/accuracy", "test_accuracy"),
    ):
        expected = [(int(row["step"]), pytest.approx(float(row[column]), rel=1e-6)) for row in rows if row[column]]
        assert found[tag] == expected, tag


def test_without_the_library_one_line_names_the_cure(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr(events, "find_spec", lambda name: None)
    code, out, err = said(capsys, "train", "spiral", "--out", tmp_path / "a" / "run", "--tensorboard")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "needs tensorboard, which is not installed · try: pip install 'chainrule[tensorboard]'" in err
    assert list(tmp_path.iterdir()) == []
