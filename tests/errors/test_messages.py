"""Each case raises an error of ours, with the message of snapshots.txt; each snapshot has its case."""

import pytest

from tests.errors.snapshots import SNAPSHOTS, load, message, read, write

CASES = load()
EXPECTED = read(SNAPSHOTS.read_text(encoding="utf-8"))
LONGEST = 1200  # characters: a message is read in a terminal, under a traceback


@pytest.mark.parametrize("name", sorted(CASES))
def test_message(name: str):
    assert message(CASES[name]) == EXPECTED.get(name), "if it is meant: python -m tests.errors.snapshots"


@pytest.mark.parametrize("name", sorted(CASES))
def test_error_is_ours_and_readable(name: str):
    from chainrule.errors import ChainruleError

    with pytest.raises(ChainruleError) as raised:
        CASES[name]()
    assert 0 < len(str(raised.value)) <= LONGEST


def test_every_snapshot_has_its_case():
    assert set(EXPECTED) == set(CASES)


def test_snapshots_survive_writing_and_reading():
    messages = {"a": "ShapeError: one\n  two", "b": "DTypeError: x f32[2]"}
    assert read(write(messages)) == messages


def test_what_differs_from_run_to_run_is_replaced():
    def provoke():
        raise ValueError("at /some/where/train.py:12, <f at 0x7f00ab>, line 3")

    assert message(provoke) == "ValueError: at .../train.py:N, <f at 0x...>, line N"
