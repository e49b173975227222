"""Writing: what is kept of the characters before gives the logits of reading them anew, and one seed gives one text."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.training import characters
from chainrule.training.characters import CharacterSettings
from chainrule.training.writing import Reading, choose
from chainrule.training.writing import characters as written
from tests.training.commands import said

TINY = {"layers": 2, "heads": 2, "width": 16, "block": 8, "batch": 4, "iterations": 40, "learning_rate": 0.01}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of ABABAC... that has learned a little."""
    from chainrule.cli import main

    place = tmp_path_factory.mktemp("runs")
    (place / "text.txt").write_text("abcab ä\n" * 200)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    path = str(place / "run")
    assert main(["train", "chars", "--text", str(place / "text.txt"), "--out", path, "--no-progress", *words]) == 0
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("block", "start"), [(8, 1), (8, 3), (8, 8), (8, 20), (1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("bias", [False, True])
def test_logits_with_and_without_memory_agree(dtype, block, start, bias):
    """Through several blocks, so that what happens when one is full is compared too."""
    settings = CharacterSettings.made(**{**TINY, "block": block}, dtype=dtype, bias=bias, seed=3)
    model = characters.model(settings, 11).eval()
    generator = np.random.default_rng(0)
    for parameter in model.parameters():  # initial weights say little
        parameter.data[...] = generator.normal(0.0, 0.5, parameter.shape)
    text = generator.integers(0, 11, start + 40)
    cached, anew = (Reading(model, text[:start], is_cached=flag) for flag in (True, False))
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    for number in text[start:]:
        np.testing.assert_allclose(cached.logits, anew.logits, rtol=tolerance, atol=tolerance)
        assert cached.window == anew.window
        cached.append(int(number))
        anew.append(int(number))


def test_without_memory_is_the_model_on_its_window():
    model = characters.model(CharacterSettings.made(**TINY, dtype="float64"), 11).eval()
    reading = Reading(model, np.array([1, 2, 3]))
    for number in (4, 5, 6, 7, 8):
        reading.append(number)
        np.testing.assert_allclose(
            reading.logits, model(np.array([reading.window])).data[0, -1], rtol=1e-11, atol=1e-13
        )
    assert reading.window == [1, 2, 3, 4, 5, 6, 7, 8]
    reading.append(9)  # full: the oldest quarter is forgotten
    assert reading.window == [3, 4, 5, 6, 7, 8, 9]
    np.testing.assert_allclose(reading.logits, model(np.array([reading.window])).data[0, -1], rtol=1e-11, atol=1e-13)


def test_a_long_prompt_counts_with_its_end():
    model = characters.model(CharacterSettings.made(**TINY), 11).eval()
    text = np.arange(30) % 11
    np.testing.assert_array_equal(Reading(model, text).logits, Reading(model, text[-8:]).logits)


def test_nothing_is_recorded():
    model = characters.model(CharacterSettings.made(**TINY), 11).eval()
    assert type(Reading(model, np.array([1])).logits) is np.ndarray


def test_the_same_seed_writes_the_same_text(folder, capsys):
    def text(*words):
        code, out, err = said(capsys, "sample", folder, "--prompt", "abc", "--tokens", 100, *words)
        assert (code, err) == (0, "")
        assert out.startswith("abc")
        assert len(out) == 3 + 100 + 1
        assert set(out) <= set("abc ä\n")
        return out

    assert text("--seed", 5) == text("--seed", 5)
    assert text("--seed", 5) != text("--seed", 6)
    assert text("--temperature", 0, "--seed", 5) == text("--temperature", 0, "--seed", 6)
    assert text("--top-k", 1, "--seed", 5) == text("--temperature", 0)


def test_the_text_is_that_of_reading_anew(folder):
    model, vocabulary = characters.load(folder)
    numbers = list(written(model, vocabulary.encode("abc"), 60, 0.7, 3, cr.random.generator(9)))
    reading = Reading(model, vocabulary.encode("abc"), is_cached=False)
    generator = cr.random.generator(9)
    for number in numbers:
        assert choose(reading.logits, 0.7, 3, generator) == number
        reading.append(number)


def test_characters_come_by_their_probabilities():
    logits = np.log(np.array([0.1, 0.6, 0.3]))
    generator = np.random.default_rng(0)

    def shares(**options):
        drawn = [
            choose(logits, options.get("temperature", 1.0), options.get("top_k"), generator) for _ in range(20_000)
        ]
        return np.bincount(drawn, minlength=3) / len(drawn)

    np.testing.assert_allclose(shares(), [0.1, 0.6, 0.3], atol=0.015)
    squared = np.array([0.01, 0.36, 0.09])
    np.testing.assert_allclose(shares(temperature=0.5), squared / squared.sum(), atol=0.015)
    np.testing.assert_allclose(shares(top_k=2), [0.0, 2 / 3, 1 / 3], atol=0.015)
    assert shares(top_k=1)[1] == shares(temperature=1e-300)[1] == 1.0
    assert choose(np.array([2.0, 2.0, 1.0]), 0.0, None, generator) == 0


def test_top_k_beyond_all_is_all():
    logits = np.array([0.0, 1.0])
    drawn = [choose(logits, 1.0, 99, np.random.default_rng(seed)) for seed in range(50)]
    assert drawn == [choose(logits, 1.0, None, np.random.default_rng(seed)) for seed in range(50)]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--prompt", "abX"], "the character 'X' at position 2"),
        (["--tokens", "0"], "expected a whole number from 1 on"),
        (["--temperature", "-1"], "expected a number from 0 on"),
        (["--temperature", "nan"], "expected a number from 0 on"),
        (["--top-k", "0"], "expected a whole number from 1 on"),
        (["--seed", "-3"], "expected a whole number from 0"),
    ],
)
def test_impossible_wishes_are_one_line_and_code_2(words, complaint, folder, capsys):
    code, out, err = said(capsys, "sample", folder, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert complaint in err


def test_a_model_that_writes_no_text(tmp_path, capsys):
    assert said(capsys, "train", "spiral", "--epochs", 1, "--out", tmp_path / "run", "--no-progress")[0] == 0
    code, out, err = said(capsys, "sample", tmp_path / "run")
    assert (code, out) == (2, "")
    assert "holds a run of `chainrule train spiral`, which writes no text" in err
