"""Characters and their numbers, windows of a text, text files that are none."""

import errno
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule as cr
from chainrule.data import Vocabulary, characters, default_text, read_text, windows
from chainrule.errors import ArgumentError, DataError, DTypeError, FileError, IndexingError

TEXT = "Zwölf Boxkämpfer jagen Viktor · 𝔸 🦊 quer über den großen Sylter Deich\n\t" * 3


# ------------------------------------------------------------ vocabularies
def test_characters_are_sorted_and_numbered():
    found = characters(TEXT).vocabulary
    assert found.characters == "".join(sorted(set(TEXT)))
    assert [found.encode(c).tolist() for c in found.characters] == [[k] for k in range(len(found))]


@given(st.text(st.characters(), min_size=1))
def test_decoding_undoes_encoding(text):
    vocabulary = Vocabulary("".join(set(text)))
    numbers = vocabulary.encode(text)
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [sorted(set(text)).index(c) for c in text]
    assert vocabulary.decode(numbers) == vocabulary.decode(numbers.tolist()) == text


def test_forms_that_numbers_may_have():
    vocabulary = Vocabulary("cba")
    assert vocabulary.decode(cr.tensor([2, 1, 0])) == "cba"
    assert vocabulary.decode(np.array([0], np.uint8)) == "a"
    assert vocabulary.decode([]) == ""
    assert vocabulary.encode("").tolist() == []
    assert repr(vocabulary) == "Vocabulary('abc')"


@pytest.mark.parametrize(
    ("text", "unknown", "position"), [("abd", "d", 2), ("\0a", "\\x00", 0), ("aßa", "ß", 1), ("a🦊", "🦊", 1)]
)
def test_unknown_characters_are_named(text, unknown, position):
    with pytest.raises(ArgumentError) as raised:
        Vocabulary("abc").encode(text)
    assert f"the character '{unknown}' at position {position} is not in the vocabulary" in str(raised.value)


@pytest.mark.parametrize(
    ("numbers", "error", "match"),
    [
        ([0, 3], IndexingError, "the number 3 at position 1 stands for no character, expected 0 to 2"),
        ([-1], IndexingError, "the number -1 at position 0"),
        ([0.0], DTypeError, "no integers"),
        ([[0]], DTypeError, "no integers"),
        (["a"], DTypeError, "no integers"),
    ],
)
def test_numbers_that_stand_for_nothing(numbers, error, match):
    with pytest.raises(error, match=match):
        Vocabulary("abc").decode(numbers)


def test_vocabularies_that_are_none():
    with pytest.raises(ArgumentError, match="there are no characters"):
        Vocabulary("")
    with pytest.raises(ArgumentError, match="there twice"):
        Vocabulary("aba")


# ------------------------------------------------------------ parts and windows
def test_the_end_of_a_text_is_for_validation():
    text = TEXT * 100
    found = characters(text)
    cut = int(0.9 * len(text))  # as nanoGPT's prepare.py does
    assert found.vocabulary.decode(found.train) == text[:cut]
    assert found.vocabulary.decode(found.validation) == text[cut:]
    whole = characters(text, validation=0.0, block=10)
    assert (len(whole.train), len(whole.validation)) == (len(text), 0)


def test_windows_are_pieces_of_the_text_and_what_comes_next():
    text = characters(TEXT * 5, validation=0.0).train
    x, y = windows(text, 8, 500, generator=cr.random.generator(3))
    assert x.shape == y.shape == (500, 8)
    assert x.flags.c_contiguous
    assert y.flags.c_contiguous
    whole = text.tolist()
    pieces = {tuple(whole[k : k + 9]) for k in range(len(whole) - 8)}
    assert all((*a, b[-1]) in pieces for a, b in zip(x.tolist(), y.tolist(), strict=True))
    np.testing.assert_array_equal(x[:, 1:], y[:, :-1])


def test_windows_begin_everywhere_and_follow_the_generator():
    x, y = windows(np.arange(6), 3, 400, generator=cr.random.generator(0))
    assert sorted(set(x[:, 0].tolist())) == [0, 1, 2]
    assert y.max() == 5
    again = windows(np.arange(6), 3, 400, generator=cr.random.generator(0))
    np.testing.assert_array_equal(again[0], x)
    with cr.random.use(cr.random.generator(0)):
        np.testing.assert_array_equal(windows(np.arange(6), 3, 400)[1], y)
    assert windows(np.arange(4), 3, 2)[0].tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: characters(""), "the text is empty"),
        (lambda: characters("abc", validation=1.0), "no share"),
        (lambda: characters("abc", validation=-0.1), "no share"),
        (lambda: characters("abc" * 10, block=64), "27 characters are too few"),
        (lambda: characters("abc" * 30, block=9), "9 characters are too few.*expected at least 10"),
        (lambda: windows(np.arange(8), 8, 1), "8 characters are too few"),
        (lambda: windows(np.arange(8), 0, 1), "at least 1"),
        (lambda: windows(np.arange(8), 2, 0), "at least 1"),
    ],
)
def test_texts_that_are_too_short(call, match):
    with pytest.raises(ArgumentError, match=match):
        call()


# ------------------------------------------------------------ texts
def test_a_text_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "text.txt"
    for content in (TEXT, "a\r\nb\rc", " "):
        path.write_bytes(content.encode())
        assert read_text(path) == read_text(str(path)) == content
        path.write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert read_text(path) == content


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "empty but for"),
        (b"ab\0c", "a zero byte at 2"),
        ("text".encode("utf-16"), "zero byte"),
        ("für".encode("latin-1"), "byte 1 is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n", "byte 0 is not UTF-8"),
        (b"abc\xe2\x82", "byte 3 is not UTF-8"),
    ],
)
def test_files_that_are_no_text(tmp_path, content, match):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=match) as raised:
        read_text(path)
    assert "text.txt" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none.txt"):
        with pytest.raises(FileError, match="cannot be read") as raised:
            read_text(path)
        assert str(path) in str(raised.value)
        assert raised.value.errno in {errno.EISDIR, errno.ENOENT, errno.EACCES}


def test_the_default_text_is_pythons_manual():
    from pydoc_data.topics import topics

    text = default_text()
    assert all(topic in text for topic in topics.values())
    assert len(text) == sum(map(len, topics.values())) + len(topics) - 1
    assert 60 < len(characters(text).vocabulary) < 200
    assert default_text() == text
    with mock.patch.dict(sys.modules, {"pydoc_data.topics": None}), pytest.raises(DataError, match="pydoc_data"):
        default_text()
