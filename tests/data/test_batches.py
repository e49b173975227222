"""Batches: every item once an epoch, an order that the seed fixes, any number of workers, stopping and going on."""

import gc
import json
import threading
import time

import numpy as np
import pytest

import chainrule as cr
from chainrule.data import Batches
from chainrule.data import workers as workers_of_data
from chainrule.errors import ArgumentError, DTypeError, GraphError, IndexingError, ShapeError

XS, YS = np.arange(40.0).reshape(20, 2), np.arange(20)


def ours():
    """The threads of batches that are there."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("chainrule-data")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert ours() == []


def noisy(x, y, generator):
    return x + generator.normal(), y, cr.random.draw.uniform(2)


def listed(batches):
    return [[array.tolist() for array in batch] for batch in batches]


# ------------------------------------------------------------ order
@pytest.mark.parametrize(
    ("size", "drop", "lengths"), [(6, False, [6, 6, 6, 2]), (6, True, [6, 6, 6]), (20, True, [20]), (50, False, [20])]
)
def test_every_item_comes_once_an_epoch_with_its_own_label(size, drop, lengths):
    batches = Batches(XS, YS, batch_size=size, drop_last=drop, seed=3)
    orders = []
    for epoch in range(3):
        assert (batches.epoch, len(batches)) == (epoch, len(lengths))
        got = list(batches)
        assert [len(y) for _, y in got] == lengths
        order = np.concatenate([y for _, y in got])
        np.testing.assert_array_equal(np.concatenate([x for x, _ in got]), XS[order])
        assert len(set(order.tolist())) == sum(lengths)
        orders.append(tuple(order))
    assert len(set(orders)) == 3


def test_without_shuffling_items_come_as_they_are():
    batches = Batches(YS, batch_size=8, shuffle=False)
    for _ in range(2):
        assert np.concatenate([y for (y,) in batches]).tolist() == list(range(20))


def test_the_order_is_a_function_of_seed_and_epoch_alone():
    first = [listed(Batches(XS, YS, batch_size=7, seed=seed)) for seed in (1, 1, 2)]
    assert first[0] == first[1] != first[2]
    batches = Batches(YS, batch_size=20, seed=1)
    cr.random.normal(5)  # nobody else's draws matter
    epochs = [next(iter(batches))[0].tolist() for batches.epoch in (4, 2, 4) for batches.position in (0,)]
    assert epochs[0] == epochs[2] != epochs[1]
    smaller = Batches(YS, batch_size=3, seed=1)
    smaller.epoch = 4
    assert np.concatenate([y for (y,) in smaller]).tolist() == epochs[0]


def test_batches_are_arrays_of_their_own():
    xs = XS.copy()
    for shuffle in (True, False):
        for transform in (None, lambda x, y, g: (x.__imul__(0.0), y)):
            for x, _ in Batches(xs, YS, batch_size=20, shuffle=shuffle, transform=transform):
                x[...] = -1.0
    np.testing.assert_array_equal(xs, XS)


def test_tensors_lists_and_memory_maps_are_arrays(tmp_path):
    np.save(tmp_path / "xs.npy", XS)
    mapped = np.load(tmp_path / "xs.npy", mmap_mode="r")
    batches = Batches(mapped, cr.tensor(YS), YS.tolist(), batch_size=20, shuffle=False)
    x, y, z = next(iter(batches))
    np.testing.assert_array_equal(x, XS)
    assert y.tolist() == z.tolist() == YS.tolist()
    assert type(y) is np.ndarray
    with pytest.raises(GraphError, match="silently lose"):
        Batches(cr.tensor(XS, requires_grad=True), batch_size=2)


def test_one_batch_is_looked_at_without_moving():
    batches = Batches(XS, YS, batch_size=6, seed=5, transform=noisy)
    looked = [[array.tolist() for array in batches[k]] for k in (0, 1, 2, -1)]
    assert (batches.epoch, batches.position) == (0, 0)
    assert looked == listed(batches)
    for k in (4, -5):
        with pytest.raises(IndexingError, match="there is no batch"):
            batches[k]


# ------------------------------------------------------------ transforms and workers
@pytest.mark.parametrize("transform", [None, noisy])
def test_any_number_of_workers_gives_the_same(transform):
    expected = None
    for workers in (0, 1, 2, 5, 40):
        batches = Batches(XS, YS, batch_size=3, seed=2, transform=transform, workers=workers)
        found = [listed(batches), listed(batches)]
        expected = expected or found
        assert found == expected


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("draw", [lambda g: g.random(), lambda g: cr.random.draw.uniform(())])
def test_o8_draws_are_distinct_within_and_across_epochs(workers, draw):
    def numbers(seed):
        batches = Batches(YS, batch_size=4, seed=seed, workers=workers, transform=lambda y, g: (y, draw(g)))
        return [{int(y): float(u) for ys, us in batches for y, u in zip(ys, us, strict=True)} for _ in range(3)]

    epochs = numbers(7)
    every = [u for epoch in epochs for u in epoch.values()]
    assert len(every) == len(set(every)) == 60
    assert epochs == numbers(7)
    assert not set(every) & {u for epoch in numbers(8) for u in epoch.values()}
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(2, 11))).random()
    assert epochs[2][11] == expected  # item 11 of epoch 2, in whatever batch it was


def test_an_item_is_the_same_in_batches_of_any_size_or_order():
    found = []
    for size, shuffle in ((1, True), (7, True), (20, False)):
        batches = Batches(XS, YS, batch_size=size, shuffle=shuffle, seed=1, transform=noisy)
        found.append({int(y): (x.tolist(), u.tolist()) for batch in batches for x, y, u in zip(*batch, strict=True)})
    assert found[0] == found[1] == found[2]


def test_slow_items_do_not_change_the_order_and_are_made_ahead():
    made = []

    def slow(y, generator):
        time.sleep(0.02 if y % 5 == 0 else 0.0)
        made.append(int(y))
        return y

    batches = Batches(YS, batch_size=2, shuffle=False, workers=3, transform=slow)
    iteration = iter(batches)
    first = next(iteration)[0].tolist()
    assert first == [0, 1]
    assert np.concatenate([y for (y,) in iteration]).tolist() == list(range(2, 20))
    assert sorted(made) == list(range(20))
    assert len(made) == 20


def test_no_more_is_made_ahead_than_it_says():
    started, gate = [], threading.Event()

    def waits(y, generator):
        started.append(int(y))
        gate.wait(10)
        return y

    batches = Batches(YS, batch_size=1, shuffle=False, workers=2, transform=waits)
    threading.Timer(0.1, gate.set).start()
    iteration = iter(batches)
    next(iteration)
    time.sleep(0.1)
    assert max(started) <= 4  # two threads, two batches each, and the one that took the place of the first
    iteration.close()


def test_workers_see_the_context_of_the_loop():
    seen = set()

    def transform(y, generator):
        seen.add((cr.zeros(1).dtype, np.geterr()["divide"], cr.random.current() is generator))
        return y

    with cr.set_default_dtype(np.float32), np.errstate(divide="ignore"):
        list(Batches(YS, batch_size=2, workers=3, transform=transform))
    assert seen == {(np.dtype(np.float32), "ignore", True)}


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_an_error_comes_out_in_its_place_and_names_the_item(workers):
    def fails(y, generator):
        if y == 13:
            raise KeyError("no such picture")
        return y

    batches = Batches(YS, batch_size=5, shuffle=False, workers=workers, transform=fails)
    got = []
    with pytest.raises(KeyError, match="no such picture") as raised:
        got.extend(batch[0][0] for batch in batches)
    assert raised.value.__notes__ == ["in the transform of item 13, epoch 0, batch 2 (chainrule.data.Batches)"]
    assert got == [0, 5]
    assert (batches.epoch, batches.position) == (0, 2)
    batches.transform = None
    assert [batch[0][0] for batch in batches] == [10, 15]


@pytest.mark.parametrize(
    ("transform", "error", "match"),
    [
        (lambda y, g: None, DTypeError, "gives arrays of numbers"),
        (lambda y, g: "text", DTypeError, "gives arrays of numbers"),
        (lambda y, g: np.zeros(3 if y == 7 else 2), ShapeError, r"same shapes · f64\[3\] after f64\[2\]"),
        (lambda y, g: (y, y) if y == 7 else y, ShapeError, r"i64\[\], i64\[\] after i64\[\]"),
    ],
)
def test_what_a_transform_cannot_give(transform, error, match):
    with pytest.raises(error, match=match) as raised:
        list(Batches(YS, batch_size=4, shuffle=False, transform=transform))
    assert "in the transform of item" in raised.value.__notes__[0]


# ------------------------------------------------------------ ends
def test_an_abandoned_iteration_leaves_no_threads():
    def slow(y, generator):
        time.sleep(0.001)
        return y

    def loop(batches):
        for _ in batches:
            assert ours()
            return

    batches = Batches(YS, batch_size=1, workers=4, transform=slow)
    loop(batches)
    assert ours() == []
    iteration = iter(batches)
    next(iteration)
    assert ours()
    del iteration
    gc.collect()
    assert ours() == []
    iter(batches)  # begun by nobody
    with pytest.raises(ZeroDivisionError):
        [1 // 0 for _ in batches]
    gc.collect()
    assert ours() == []


def test_an_abandoned_batch_is_not_finished(monkeypatch):
    """The end waits for the items that are being made, not for the batches."""
    made, late, begun, ended = [], [False], threading.Event(), threading.Event()
    monkeypatch.setattr(workers_of_data, "Event", lambda: ended)

    def waits(y, generator):
        if y >= 100:
            begun.set()
            late.append(late[-1] or not ended.wait(20))  # whoever waits in vain lets the others pass
            made.append(int(y))
        return y

    batches = Batches(np.arange(600), batch_size=100, shuffle=False, workers=2, transform=waits)
    iteration = iter(batches)
    next(iteration)
    assert begun.wait(60)
    iteration.close()
    assert 1 <= len(made) <= 2


def test_it_goes_on_where_it_stopped():
    batches, whole = (Batches(YS, batch_size=6, seed=4) for _ in range(2))
    expected = listed(whole)
    for count, _ in enumerate(batches, 1):
        if count == 2:
            break
    assert batches.position == 2
    assert listed(batches) == expected[2:]
    assert (batches.epoch, batches.position) == (1, 0)


def test_two_iterations_at_once_are_refused():
    batches = Batches(YS, batch_size=6, workers=2)
    first = iter(batches)
    next(first)
    next(iter(batches))
    with pytest.raises(ArgumentError, match="another one has begun") as raised:
        next(first)
    assert raised.tb
    assert ours() == []  # although the traceback holds what was running
    third = iter(batches)
    next(third)
    batches.load_state_dict(Batches(YS, batch_size=6).state_dict())
    with pytest.raises(ArgumentError, match="a state was loaded"):
        next(third)
    assert (batches.epoch, batches.position) == (0, 0)
    third.close()


# ------------------------------------------------------------ states
@pytest.mark.parametrize("stop", range(9))
@pytest.mark.parametrize("workers", [(0, 3), (3, 0)])
def test_a_state_goes_through_json_and_continues_bit_for_bit(stop, workers):
    """Stopped after each number of batches, at the ends of epochs too, and gone on with another number of workers."""

    def run(batches, epochs, stop=-1):
        got = []
        while batches.epoch < epochs:
            for batch in batches:
                got.append([array.tolist() for array in batch])
                if len(got) == stop:
                    return got
        return got

    make = lambda seed, workers: Batches(XS, YS, batch_size=6, seed=seed, transform=noisy, workers=workers)
    expected = run(make(9, 0), 2)
    assert len(expected) == 8
    before = make(9, workers[0])
    got = run(before, 2, stop) if stop else []
    state = json.loads(json.dumps(before.state_dict()))
    after = make(0, workers[1])  # the seed is part of the state
    after.load_state_dict(state)
    assert got + run(after, 2) == expected
    assert (after.epoch, after.position) == (2, 0)


def test_the_end_of_an_epoch_comes_again_when_nobody_saw_it():
    """A run stopped after the last batch and before what follows the epoch, an evaluation for one, still does that."""
    batches = Batches(YS, batch_size=10)
    for _ in batches:
        if batches.position == 2:
            break
    assert (batches.epoch, batches.position) == (0, 2)
    again = Batches(YS, batch_size=10)
    again.load_state_dict(batches.state_dict())
    assert list(again) == []
    assert (again.epoch, again.position) == (1, 0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"items": 21}, "items 21, expected items=20"),
        ({"batch_size": 5}, "batch_size 5, expected batch_size=6"),
        ({"shuffle": False}, "shuffle"),
        ({"drop_last": True}, "drop_last"),
        ({"position": 5}, "no such place"),
        ({"position": -1}, "no such place"),
        ({"position": 1.5}, "no state"),
        ({"epoch": -1}, "no state"),
        ({"seed": "1"}, "no state"),
    ],
)
def test_states_that_do_not_fit_change_nothing(change, match):
    batches = Batches(YS, batch_size=6, seed=3)
    next(iter(batches))
    before = batches.state_dict()
    with pytest.raises(ArgumentError, match=match):
        batches.load_state_dict({**before, **change})
    for other in ({}, {name: before[name] for name in ("seed", "epoch")}, None):
        with pytest.raises(ArgumentError, match="no state"):
            batches.load_state_dict(other)
    assert batches.state_dict() == before


# ------------------------------------------------------------ arguments
@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ArgumentError, lambda: Batches(batch_size=2)),
        (ArgumentError, lambda: Batches(3.0, batch_size=2)),
        (ArgumentError, lambda: Batches(np.zeros((0, 2)), batch_size=2)),
        (ShapeError, lambda: Batches(XS, YS[:3], batch_size=2)),
        (ArgumentError, lambda: Batches(XS, batch_size=0)),
        (ArgumentError, lambda: Batches(XS, batch_size=2.0)),
        (ArgumentError, lambda: Batches(XS, batch_size=2, workers=-1)),
        (ArgumentError, lambda: Batches(XS, batch_size=2, seed=-1)),
        (ArgumentError, lambda: Batches(XS, batch_size=2, seed=None)),
        (ArgumentError, lambda: Batches(XS, batch_size=21, drop_last=True)),
    ],
)
def test_arguments_out_of_range(error, make):
    with pytest.raises(error):
        make()


def test_repr_says_what_and_where():
    text = repr(Batches(XS, YS, batch_size=6, seed=1))
    assert text == "Batches(f64[20, 2], i64[20], batch_size=6, seed=1: epoch 0, position 0 of 4)"
