"""The character transformer: nanoGPT's sizes, initial weights and settings, its text, and what it is evaluated on."""

import math
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ArgumentError, ChainruleError
from chainrule.training import characters
from chainrule.training.characters import CharacterSettings
from chainrule.training.loop import Run
from chainrule.training.sources import Windows, consecutive
from tests.training.commands import said

TINY = {"layers": 2, "heads": 2, "width": 16, "block": 8, "batch": 4, "iterations": 30}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(np.random.default_rng(0).choice(list("abcdef \n"), 3000)))
    return str(path)


# Documented by nanoGPT: it prints 0.80M for its CPU setting and 10.65M for the baby GPT, positions not counted, 65 characters.
@pytest.mark.parametrize(("preset", "millions"), [("cpu", "0.80"), ("baby", "10.65")])
def test_as_many_parameters_as_nanogpt(preset, millions):
    settings = CharacterSettings.made(preset=preset)
    model = characters.model(settings, 65)
    count = sum(p.size for p in model.parameters()) - model.position.weight.size
    assert f"{count / 1e6:.2f}" == millions


def test_settings_of_nanogpt():
    cpu, baby = (CharacterSettings.made(preset=name) for name in ("cpu", "baby"))
    assert (cpu.layers, cpu.heads, cpu.width, cpu.block, cpu.batch, cpu.iterations) == (4, 4, 128, 64, 12, 2000)
    assert (baby.layers, baby.heads, baby.width, baby.block, baby.batch, baby.iterations) == (6, 6, 384, 256, 64, 5000)
    assert (cpu.dropout, baby.dropout) == (0.0, 0.2)
    for settings in (cpu, baby):
        assert (settings.learning_rate, settings.final_rate, settings.warm_up) == (1e-3, 1e-4, 100)
        assert (settings.weight_decay, settings.clip, settings.bias, settings.untied) == (0.1, 1.0, False, False)
        assert settings.decay_iterations == settings.iterations
    assert (cpu.initial_std, baby.initial_std) == (0.08, 0.02)  # docs/decisions/061
    assert CharacterSettings() == CharacterSettings.made(preset="tiny") == CharacterSettings.made()


@pytest.mark.parametrize("std", [0.02, 0.08])
def test_initial_weights_are_laid_out_as_in_gpt2(std):
    model = characters.model(CharacterSettings.made(preset="baby", bias=True, untied=True, initial_std=std), 65)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            leads_back = name.endswith(("self_attn.out_proj.weight", "linear2.weight"))
            expected = std / math.sqrt(12) if leads_back else std
            assert parameter.data.std() == pytest.approx(expected, rel=0.02), name
            assert abs(parameter.data.mean()) < 5 * expected / math.sqrt(parameter.size), name
        else:
            expected = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            np.testing.assert_array_equal(parameter.data, expected, err_msg=name)


def test_only_matrices_decay(text):
    task = characters.build(CharacterSettings.made(**TINY, text=text, bias=True))
    decaying, others = task.optimizer.param_groups
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert all(p.ndim == 2 for p in decaying["params"])
    assert all(p.ndim == 1 for p in others["params"])
    assert {id(p) for p in (*decaying["params"], *others["params"])} == {id(p) for p in task.model.parameters()}
    assert decaying["betas"] == (0.9, 0.99)


def test_the_head_is_tied_or_not():
    tied, untied = (characters.model(CharacterSettings.made(**TINY, untied=flag), 9) for flag in (False, True))
    assert tied.head.weight is tied.token.weight
    assert len(untied.parameters()) == len(tied.parameters()) + 1


def test_it_begins_knowing_nothing_and_learns(text):
    """At first each of 8 characters is as likely as any: log 8 nats.  These are random, so nothing is to be learned."""
    run = Run(characters.build(CharacterSettings.made(**TINY, text=text, initial_std=0.02)))
    assert run.measure()["validation_loss"] == pytest.approx(math.log(8), abs=0.01)


def test_it_learns_what_can_be_known(tmp_path):
    """A text that repeats itself can be foreseen to the last character."""
    (tmp_path / "text.txt").write_text("abcdefgh" * 400)
    settings = CharacterSettings.made(
        **{**TINY, "iterations": 150}, learning_rate=0.01, text=str(tmp_path / "text.txt")
    )
    assert Run(characters.build(settings)).finish()["validation_loss"] < 0.02


def test_no_character_sees_the_next():
    model = characters.model(CharacterSettings.made(**TINY, dtype="float64"), 9)
    numbers = np.random.default_rng(0).integers(0, 9, (1, 8))
    before = model(numbers).data
    for k in range(1, 8):
        changed = numbers.copy()
        changed[0, k:] = (changed[0, k:] + 1) % 9
        np.testing.assert_array_equal(model(changed).data[0, :k], before[0, :k])
        assert not np.allclose(model(changed).data[0, k], before[0, k])


def test_the_end_of_the_text_is_held_out(text):
    task = characters.build(CharacterSettings.made(**TINY, text=text))
    whole = Path(text).read_text()
    vocabulary = cr.data.Vocabulary(task.notes["characters"])
    assert vocabulary.decode(task.source.numbers) == whole[:2700]


def test_consecutive_windows_cover_the_text():
    numbers = np.arange(100)
    x, y = consecutive(numbers, 8)
    np.testing.assert_array_equal(x.ravel(), np.arange(96))
    np.testing.assert_array_equal(y.ravel(), np.arange(1, 97))
    some, after = consecutive(numbers, 8, most=3)
    np.testing.assert_array_equal(some[:, 0], [0, 48, 88])
    np.testing.assert_array_equal(after, some + 1)


def test_the_evaluation_is_the_mean_over_all_characters(text):
    """Beside log-probabilities gathered one by one."""
    task = characters.build(CharacterSettings.made(**TINY, text=text, dtype="float64"))
    validation = cr.data.Vocabulary(task.notes["characters"]).encode(Path(text).read_text()[2700:])
    total, count = 0.0, 0
    for start in range(0, len(validation) - 8, 8):
        logits = task.model(validation[None, start : start + 8]).data[0]
        for row, number in zip(logits, validation[start + 1 : start + 9], strict=True):
            total += math.log(sum(math.exp(z) for z in row)) - row[number]
            count += 1
    assert Run(task).conclude()["validation_loss"] == pytest.approx(total / count, rel=1e-12)


def test_windows_of_a_text_go_on_where_they_stood():
    numbers = np.arange(50)
    source = Windows(numbers, 5, 3, cr.random.generator(0))
    next(source)
    state = source.state_dict()["generator"].bit_generator.state
    expected = [next(source)[0] for _ in range(3)]
    other = Windows(numbers, 5, 3, cr.random.generator(1))
    other.load_state_dict({"generator": np.random.Generator(np.random.PCG64())})
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    other.load_state_dict({"generator": generator})
    np.testing.assert_array_equal([next(other)[0] for _ in range(3)], expected)


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"heads": 3, "width": 16}, "--heads 3 does not divide --width 16 · try --width 18"),
        ({"learning_rate": 1e-3, "final_rate": 0.1}, "--final-rate 0.1 is above --learning-rate 0.001"),
        ({"iterations": 10, "warm_up": 10}, "--warm-up 10 leaves nothing of 10 steps"),
        ({"dropout": 1.0}, "--dropout 1.0, expected a number from 0 to below 1"),
        ({"layers": 0}, "--layers 0, expected a whole number from 1 on"),
    ],
)
def test_impossible_settings(given, said):
    with pytest.raises(ArgumentError, match=said):
        CharacterSettings.made(**given)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "empty"),
        (b"\xff\xfe\x00\x01", "zero byte"),
        (b"caf\xe9 au lait", "not UTF-8"),
        (b"short", "too few"),
        (b"x" * 600, "too few"),  # 60 characters are held out, and a block has 64
    ],
)
def test_texts_that_cannot_be_learned_from(content, said, tmp_path):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ChainruleError, match=said):
        characters.build(CharacterSettings.made(text=str(path)))


def test_a_text_that_changed_is_noticed(text, tmp_path, capsys):
    copy = tmp_path / "text.txt"
    copy.write_text(Path(text).read_text())
    words = [f"--{name}={value}" for name, value in TINY.items()]
    code, _, err = said(capsys, "train", "chars", "--text", copy, "--out", tmp_path / "run", "--no-progress", *words)
    assert code == 0, err
    copy.write_text(Path(text).read_text() + "f")
    code, out, err = said(capsys, "train", "chars", "--resume", tmp_path / "run", "--iterations", 40)
    assert (code, out) == (2, "")
    assert "the data are not those that the run began with" in err
    code, _, err = said(
        capsys, "train", "chars", "--resume", tmp_path / "run", "--iterations", 40, "--text", text, "--no-progress"
    )
    assert code == 0, err
