"""Data: batches, splits, texts, images."""

import sys
from unittest import mock

import numpy as np

import chainrule as cr
from tests.errors.snapshots import case

XS = np.zeros((20, 2))


# ---------------------------------------------------------------- batches
@case
def batches_of_different_lengths():
    cr.data.Batches(XS, np.zeros(3), batch_size=2)


@case
def batches_of_no_items():
    cr.data.Batches(XS[:0], batch_size=2)


@case
def batches_of_no_size():
    cr.data.Batches(XS, batch_size=0)


@case
def batches_all_dropped():
    cr.data.Batches(XS, batch_size=32, drop_last=True)


@case
def batches_with_a_bad_seed():
    cr.data.Batches(XS, batch_size=2, seed=-1)


@case
def batches_at_an_index_outside():
    cr.data.Batches(XS, batch_size=5)[4]


@case
def batches_iterated_twice_at_once():
    batches = cr.data.Batches(XS, batch_size=5)
    first = iter(batches)
    next(first)
    next(iter(batches))
    next(first)


@case
def batches_of_another_size_loaded():
    state = cr.data.Batches(XS, batch_size=5).state_dict()
    cr.data.Batches(XS, batch_size=4).load_state_dict(state)


@case
def batches_at_a_place_that_is_none():
    batches = cr.data.Batches(XS, batch_size=5)
    batches.load_state_dict({**batches.state_dict(), "position": 7})


@case
def batches_of_no_state():
    cr.data.Batches(XS, batch_size=5).load_state_dict({"epoch": 1})


@case
def transform_gives_nothing():
    list(cr.data.Batches(XS, batch_size=5, transform=lambda x, generator: None))


@case
def transform_changes_its_shape():
    transform = lambda x, k, generator: np.zeros(2 if k < 3 else 3)
    list(cr.data.Batches(XS, np.arange(20), batch_size=5, shuffle=False, transform=transform))


# ---------------------------------------------------------------- splits
@case
def split_holds_everything_out():
    cr.data.split(XS, held_out=20)


@case
def split_by_too_few_labels():
    cr.data.split(XS, labels=np.zeros(3, int))


# ---------------------------------------------------------------- texts
@case
def encode_an_unknown_character():
    cr.data.Vocabulary("abc").encode("cabd")


@case
def decode_an_unknown_number():
    cr.data.Vocabulary("abc").decode([0, 3])


@case
def decode_floats():
    cr.data.Vocabulary("abc").decode(np.zeros(2))


@case
def characters_shorter_than_a_block():
    cr.data.characters("a text of few words", block=64)


@case
def characters_validate_on_everything():
    cr.data.characters("a text", validation=1.0)


@case
def windows_longer_than_the_text():
    cr.data.windows(np.arange(10), 10, 4)


@case
def text_file_is_missing():
    cr.data.read_text("no/such/file.txt")


# ---------------------------------------------------------------- images
@case
def digits_without_scikit_learn():
    gone = dict.fromkeys(["sklearn", *[name for name in sys.modules if name.startswith("sklearn.")]])
    with mock.patch.dict(sys.modules, gone):
        cr.data.digits()


@case
def idx_file_is_missing():
    cr.data.read_idx("no/such/file")


@case
def idx_file_is_something_else():
    cr.data.read_idx(__file__)


@case
def fashion_is_not_there():
    cr.data.fashion("no/such/folder")
