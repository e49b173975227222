"""The loop: a run is a function of its settings, wherever it is cut, however often it is looked at."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError
from chainrule.training import characters, digits, spiral
from chainrule.training.history import History
from chainrule.training.loop import Run

SMALL = {
    "layers": 1,
    "heads": 2,
    "width": 16,
    "block": 8,
    "batch": 4,
    "iterations": 24,
    "evaluate_every": 10,
    "dropout": 0.2,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(np.random.default_rng(0).choice(list("abcdef \n"), 2000)))
    return str(path)


def task(name, text, dtype="float32", **more):
    """A small task in which everything that can be random is."""
    if name == "chars":
        return characters.build(characters.CharacterSettings.made(**SMALL, text=text, dtype=dtype, **more))
    if name == "spiral":
        return spiral.build(spiral.SpiralSettings.made(epochs=24, dtype=dtype, **more))
    return digits.build(digits.DigitSettings.made(model=name, epochs=2, batch=120, dtype=dtype, noise=0.1, **more))


def trained(run):
    """All that training changes, but for what evaluations found."""
    task = run.task
    held = {
        name: part.state_dict() for name, part in run.parts().items() if name not in ("generator", "history", "source")
    }
    source = (
        task.source.generator.bit_generator.state if hasattr(task.source, "generator") else task.source.state_dict()
    )
    return held | {"source": source, "generator": task.generator.bit_generator.state, "loss": run.history.loss}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["chars", "spiral", "mlp", "cnn"])
def test_a_run_that_was_cut_equals_one_that_was_not(name, dtype, text, tmp_path):
    whole = Run(task(name, text, dtype))
    whole.finish()
    assert whole.step >= 24
    for cut in (0, 1, 13, 23):
        first = Run(task(name, text, dtype))
        for _ in range(cut):
            first.advance()
        cr.io.save_checkpoint(tmp_path / "cut.npz", **first.parts())
        second = Run(task(name, text, dtype))
        cr.io.load_checkpoint(tmp_path / "cut.npz", **second.parts())
        assert second.step == cut
        assert second.finish() == whole.outcome
        assert second.history.measured[second.step] == whole.history.measured[whole.step]
        np.testing.assert_equal(trained(second), trained(whole))


@pytest.mark.parametrize("name", ["chars", "cnn"])
def test_looking_changes_nothing(name, text):
    seldom, often = Run(task(name, text)), Run(task(name, text))
    for run in (seldom, often):
        for _ in range(9):
            if run is often:
                run.measure()
                run.conclude()
            run.advance()
    np.testing.assert_equal(trained(seldom), trained(often))


def test_the_process_generator_has_no_part_in_it(text):
    losses = []
    for seed in (1, 2):
        cr.random.seed(seed)
        run = Run(task("chars", text))
        losses.append([run.advance() for _ in range(3)])
    assert losses[0] == losses[1]


def test_the_default_dtype_outside_has_no_part_in_it(text):
    run = Run(task("chars", text, "float32"))
    run.advance()
    assert {parameter.dtype for parameter in run.task.model.parameters()} == {np.dtype(np.float32)}
    with cr.set_default_dtype(np.float16):
        other = Run(task("chars", text, "float32"))
        other.advance()
    assert other.history.loss == run.history.loss


def test_seeds_differ_in_everything_that_is_random(text):
    one, other = Run(task("chars", text)), Run(task("chars", text, seed=1))
    assert not np.array_equal(next(one.task.source)[0], next(other.task.source)[0])
    assert not np.array_equal(one.task.model.token.weight.data, other.task.model.token.weight.data)
    assert one.task.generator.random() != other.task.generator.random()


def test_evaluations_come_when_they_are_due(text):
    run = Run(task("chars", text))
    events = list(run.events())
    assert events.count("step") == 24
    assert sorted(run.history.measured) == [0, 10, 20, 24]
    assert not run.is_finished
    run.conclude()
    assert run.is_finished


def test_an_evaluation_that_is_given_up_is_done_later(text):
    class GivenUpError(Exception):
        pass

    def give_up():
        raise GivenUpError

    run = Run(task("chars", text))
    with pytest.raises(GivenUpError):
        run.measure(give_up)
    assert run.history.measured == {}
    assert run.task.model.training
    assert next(run.events()) == "measure"


def test_a_loss_that_is_no_number_ends_the_run(text):
    run = Run(task("chars", text))
    run.advance()
    run.task.model.norm.weight.data[...] = np.nan
    with pytest.raises(ArgumentError, match="the loss is nan at step 2 · try a new run with a lower --learning-rate"):
        run.advance()
    assert run.step == 1


# --------------------------------------------------------------------------------------------------------- the history


def test_history_as_csv():
    history = History(["test_loss", "test_accuracy"])
    history.measured[0] = {"test_loss": 0.5, "test_accuracy": 0.25}
    history.add(0.1, np.float32(1 / 3))
    history.add(0.01, 2.0)
    history.measured[2] = {"test_loss": 1e-7, "test_accuracy": 1.0}
    assert history.csv().splitlines() == [
        "step,rate,loss,test_loss,test_accuracy",
        "0,,,0.5,0.25",
        "1,0.1,0.333333343,,",
        "2,0.01,2,1e-07,1",
    ]


def test_history_through_its_state():
    history = History(["a"])
    history.add(0.1, 0.2)
    history.measured[1] = {"a": 3.0}
    other = History(["a"])
    other.load_state_dict(history.state_dict())
    assert (other.rate, other.loss, other.measured) == (history.rate, history.loss, history.measured)
    assert other.curve("a") == ([1], [3.0])
    empty = History(["a"])
    empty.load_state_dict(History(["a"]).state_dict())
    assert empty.csv() == "step,rate,loss,a\n"
