"""Checkpoints: what is saved comes back with every type and bit, and is loaded all or not at all."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.errors import ArgumentError, CheckpointError, DTypeError, FileError
from tests.io.things import Adam, Thing, exactly

BIT_GENERATORS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.npz"


def nan(bits):
    return struct.unpack(">d", struct.pack(">Q", bits))[0]


# ---------------------------------------------------------------- values
VALUES = {
    "nothing": None,
    "booleans": [True, False, np.True_],
    "integers": [0, -1, 2**63, -(2**63), -(2**63) - 1, 2**128 - 1, -(2**200), 10**5000],
    "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3],
    "not finite": [float("inf"), -float("inf"), nan(0x7FF8000000000000), nan(0xFFF8000000000123)],
    "texts": ["", "é", "日本", "\0", "\ud800", '"\\', "nan", "array"],
    "lists and tuples": [(), [], (1,), [1], ((), [()]), (1, (2, [3]))],
    "dictionaries": [{}, {"a": {}}, {0: 1, "0": 2}, {1.5: "x", None: 0, (1, "a"): 2}, {"b": 1, "a": 2}, {True: 1, False: 0}, {np.int64(3): 1}],
    "misleading": [{"tuple": [1]}, {"array": 0}, {"dict": []}, {"int": "0x1"}],
    "scalars of NumPy": [np.float32(0.1), np.float64(0.1), np.int8(-1), np.float64(nan(0xFFF8000000000123)), np.str_("a")],
    "arrays": [np.array(0.1), np.zeros((0, 3)), np.arange(6, dtype=np.int8).reshape(2, 3), np.array([True]), np.array([-0.0, np.nan])],
    "other dtypes": [np.ones(2, ">f4"), np.ones(1, np.float16), np.ones(1, np.longdouble), np.ones(2, complex), np.array(["a", "bcd"]),
                     np.array([b"x"]), np.array(["2020-01-01"], "M8[D]"), np.array([3], "m8[ms]")],
    "tensors": [cr.tensor([1.0, 2.0], requires_grad=True), cr.tensor([1, 2]), cr.tensor(2.5), cr.ones(2, np.float32)],
    "generators": [np.random.Generator(kind(7)) for kind in BIT_GENERATORS],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_exactly(path, name):
    cr.io.save_checkpoint(path, value=VALUES[name], beside=1)
    assert exactly(cr.io.load_checkpoint(path)) == exactly({"value": VALUES[name], "beside": 1})


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.floats(width=32).map(np.float32), st.lists(st.floats()).map(np.array), st.integers(-9, 9).map(np.array),
)  # fmt: skip
KEYS = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.tuples(st.integers(), st.text()))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(KEYS, inner)),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(TREES)
def test_any_tree_comes_back_exactly(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("trees") / "checkpoint.npz"
    cr.io.save_checkpoint(path, tree=tree)
    assert exactly(cr.io.load_checkpoint(path)) == exactly({"tree": tree})


def test_arrays_of_any_layout(path):
    w = np.arange(12.0).reshape(3, 4)
    value = [w.T, w[::-1, ::2], np.asfortranarray(w), np.broadcast_to(w[0], (2, 4)), w[1]]
    cr.io.save_checkpoint(path, value=value)
    assert exactly(cr.io.load_checkpoint(path)["value"]) == exactly([np.array(array) for array in value])


def test_one_array_comes_back_as_one_within_a_thing_only(path):
    w = np.arange(1000.0)
    cr.io.save_checkpoint(path, model=Thing({"head": w, "embedding": w, "part": w[:10]}), ema={"w": w})
    loaded = cr.io.load_checkpoint(path)
    model = loaded["model"]
    assert model["head"] is model["embedding"]
    assert not np.shares_memory(model["head"], model["part"])
    assert not np.shares_memory(model["head"], loaded["ema"]["w"])  # an average that moves on must not move the model
    assert path.stat().st_size < 2.5 * w.nbytes


def test_a_recorded_result_comes_back_as_its_value(path):
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    cr.io.save_checkpoint(path, y=x * x)
    y = cr.io.load_checkpoint(path)["y"]
    assert y.tolist() == [1.0, 4.0]
    assert not y.requires_grad


def test_names_of_things(path):
    things = {
        "path": 1,
        "self": 2,
        "things": 3,
        "a/b": np.zeros(1),
        "..": np.ones(1),
        "chainrule.json": np.ones(2),
        "": 4,
    }
    cr.io.save_checkpoint(path, **things)
    assert exactly(cr.io.load_checkpoint(path)) == exactly(things)


def test_numpy_reads_the_arrays_under_readable_names(path):
    p = [np.ones((2, 3)), np.ones(2, np.float32)]
    optimiser = Adam(p)
    cr.io.save_checkpoint(
        path, model={"layer.weight": p[0]}, optimiser=optimiser, odd={0: np.zeros(1), "0": np.ones(1)}
    )
    with np.load(path) as archive:
        assert {"model/layer.weight", "optimiser/state/0/exp_avg", "optimiser/state/1/step", "odd/0"} <= set(
            archive.files
        )
        for number in (0, 1):
            average = archive[f"optimiser/state/{number}/exp_avg"]
            assert exactly(average) == exactly(optimiser.state["state"][number]["exp_avg"])


# ---------------------------------------------------------------- things
def test_things_take_up_their_states(path):
    p = [np.ones((2, 3)), np.ones(2, np.float32), np.array(1.0)]
    saved = {"model": Thing({"w": p[0]}), "optimiser": Adam(p), "loader": Thing({"epoch": 3, "position": 17})}
    cr.io.save_checkpoint(path, **saved, epoch=3, history=[(0, 1.5), (1, float("nan"))])
    fresh = {name: Thing(None) for name in saved}
    loaded = cr.io.load_checkpoint(path, **fresh)
    assert list(loaded) == ["model", "optimiser", "loader", "epoch", "history"]
    for name, thing in saved.items():
        assert loaded[name] is fresh[name]
        assert fresh[name].loaded == 1
        assert exactly(fresh[name].state) == exactly(thing.state)
    assert exactly([loaded["epoch"], loaded["history"]]) == exactly([3, [(0, 1.5), (1, float("nan"))]])


def test_things_not_asked_for_come_back_as_states(path):
    cr.io.save_checkpoint(path, model=Thing({"w": np.ones(2)}), optimiser=Adam([np.ones(2)]))
    fresh = Thing(None)
    loaded = cr.io.load_checkpoint(path, model=fresh)
    assert exactly(loaded["optimiser"]) == exactly(Adam([np.ones(2)]).state)
    assert loaded["model"] is fresh


def test_saving_changes_nothing(path):
    rng = np.random.default_rng(3)
    thing = Thing({"w": np.arange(3.0), "rng": rng.bit_generator.state})
    before = exactly(thing.state)
    cr.io.save_checkpoint(path, thing=thing, rng=rng)
    assert exactly(thing.state) == before
    assert exactly(rng) == exactly(np.random.default_rng(3))


@pytest.mark.parametrize("kind", BIT_GENERATORS)
def test_generator_goes_on_where_it_was(path, kind):
    rng = np.random.Generator(kind(5))
    rng.random(3, dtype=np.float32)  # half of a 64-bit draw is left over
    cr.io.save_checkpoint(path, rng=rng)
    expected = rng.random(5, dtype=np.float32), rng.normal(size=4), rng.permutation(9)
    given = np.random.Generator(kind(0))
    cr.io.load_checkpoint(path, rng=given)
    for again in (given, cr.io.load_checkpoint(path)["rng"]):
        assert exactly([again.random(5, dtype=np.float32), again.normal(size=4), again.permutation(9)]) == exactly(
            list(expected)
        )


def test_state_of_the_process_wide_generator(path):
    cr.random.seed(11)
    cr.random.normal((3,))
    cr.io.save_checkpoint(path, random=cr.random.state())
    expected = cr.random.normal((4,)).tolist()
    cr.random.seed(0)
    cr.random.set_state(cr.io.load_checkpoint(path)["random"])
    assert cr.random.normal((4,)).tolist() == expected


# ---------------------------------------------------------------- all or nothing
def refuse(state):
    raise KeyError("layers.0.weight")


class TestNothingIsChanged:
    @pytest.fixture
    def run(self, path):
        """What a run holds when it asks for a checkpoint that was saved in another state."""
        held = [self.things(seed) for seed in (0, 1)]
        cr.io.save_checkpoint(path, **held[0], epoch=3)
        return held[1]

    def things(self, seed):
        return {
            "model": Thing({"w": np.full(3, float(seed))}),
            "rng": np.random.default_rng(seed),
            "optimiser": Adam([np.ones(2)], seed),
        }

    def state(self, things):
        return {name: exactly(getattr(thing, "state", thing)) for name, thing in things.items()}

    def refused(self, path, run, match, kind=CheckpointError):
        before = self.state(
            {name: thing for name, thing in run.items() if isinstance(thing, Thing | np.random.Generator)}
        )
        with pytest.raises(kind, match=match) as caught:
            cr.io.load_checkpoint(path, **run)
        assert "checkpoint.npz" in str(caught.value) or kind is not CheckpointError
        assert self.state({name: run[name] for name in before}) == before
        return caught.value

    def test_it_is_changed_if_everything_fits(self, path, run):
        cr.io.load_checkpoint(path, **run)
        assert self.state(run) == self.state(self.things(0))

    def test_a_name_is_missing(self, path, run):
        self.refused(path, run | {"schedule": Thing({})}, "holds no 'schedule', only model, rng, optimiser, epoch")
        assert run["model"].loaded == 0

    def test_a_value_for_a_thing(self, path, run):
        self.refused(path, run | {"epoch": Thing(0)}, "holds a value as 'epoch'")
        assert run["model"].loaded == 0

    def test_a_generator_for_a_thing_and_the_other_way(self, path, run):
        self.refused(path, {"model": Thing(0), "rng": Thing(0)}, "holds a value as 'rng'")
        self.refused(path, {"rng": run["rng"], "model": np.random.default_rng(0)}, "holds no generator as 'model'")

    def test_another_kind_of_generator(self, path, run):
        other = np.random.Generator(np.random.MT19937(0))
        self.refused(path, run | {"rng": other}, "holds PCG64 as 'rng', which is a MT19937 here")
        assert run["model"].loaded == 0

    def test_what_takes_no_state(self, path, run):
        class Saves:
            state_dict = Thing.state_dict

        for thing in (0, None, np.zeros(3), {"w": 1}, Thing, object(), Saves()):
            self.refused(path, run | {"model": thing}, "'model' cannot take up a state", ArgumentError)

    @pytest.mark.parametrize("name", ["operation", "fault", "expected", "remedy", "thing"])
    def test_names_that_messages_use(self, path, name):
        cr.io.save_checkpoint(path, **{name: 1})
        self.refused(path, {name: 0}, f"'{name}' cannot take up a state", ArgumentError)

    @pytest.mark.parametrize("last", ["model", "optimiser"])
    def test_a_thing_refuses(self, path, run, last):
        run[last].accepts = refuse
        error = self.refused(path, run, rf"'{last}', saved from \w+, refused its state; .* KeyError: 'layers.0.weight'")
        assert isinstance(error.__cause__, KeyError)

    def test_a_thing_refuses_halfway(self, path, run):
        """One that writes before it looks, and is set back by its own means."""

        def write_and_refuse(state):
            if state["w"][0] == 0.0:
                run["model"].state["w"][:] = 77.0
                raise ValueError("half done")

        run["model"].accepts = write_and_refuse
        self.refused(
            path,
            {"optimiser": run["optimiser"], "rng": run["rng"], "model": run["model"]},
            "nothing was changed .* half done",
        )

    def test_a_thing_that_cannot_be_set_back(self, path, run):
        def refuse_for_good(state):
            run["model"].accepts = refuse
            raise ValueError("first")

        run["model"].accepts = refuse_for_good
        with pytest.raises(CheckpointError, match="could not be set back: model · ValueError: first"):
            cr.io.load_checkpoint(path, **run)

    def test_interrupted(self, path, run):
        def interrupt(state):
            if state["param_groups"] is not before["param_groups"]:
                run["optimiser"].accepts = lambda state: None
                raise KeyboardInterrupt

        before, expected = run["optimiser"].state, self.state(run)
        run["optimiser"].accepts = interrupt
        with pytest.raises(KeyboardInterrupt):
            cr.io.load_checkpoint(path, **run)
        assert self.state(run) == expected


# ---------------------------------------------------------------- refusals
CYCLE: list = []
CYCLE.append(CYCLE)
CANNOT = {"set": {1}, "bytes": b"x", "complex": 1j, "function": len, "class": Thing, "object": object(), "objects": np.array([None]),
          "records": np.zeros(1, [("a", "f4")]), "masked": np.ma.array([1.0]), "legacy": np.random.RandomState(0), "cycle": CYCLE}  # fmt: skip


@pytest.mark.parametrize("value", CANNOT.values(), ids=CANNOT)
def test_what_cannot_be_stored(path, value):
    cr.io.save_checkpoint(path, epoch=3)
    with pytest.raises(DTypeError, match=r"thing\['a'\]\[1\] cannot be stored|contains itself"):
        cr.io.save_checkpoint(path, thing={"a": (0, value)})
    with pytest.raises(DTypeError, match=r"thing\['a'\] cannot be stored|contains itself"):
        cr.io.save_checkpoint(path, thing=Thing({"a": value}))
    assert cr.io.load_checkpoint(path) == {"epoch": 3}


def test_depth(path):
    """Whatever can be saved can be loaded, from a deeper place too."""
    for wrap in (lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (inner,), lambda inner: {(inner,): 1} if isinstance(inner, tuple | int) else 0):  # fmt: skip
        tree, deepest = 1, None
        for _ in range(150):
            tree = wrap(tree)
            try:
                cr.io.save_checkpoint(path, tree=tree)
            except DTypeError as error:
                assert "more than 100 deep" in str(error)  # noqa: PT017 - the depth is what is looked for
                break
            deepest = tree
        assert deepest is not None

        def load(calls):
            return cr.io.load_checkpoint(path) if not calls else load(calls - 1)

        assert load(100) == {"tree": deepest}


def test_keys_that_cannot_be_stored(path):
    with pytest.raises(DTypeError, match="cannot be stored"):
        cr.io.save_checkpoint(path, thing={b"a": 1})
    with pytest.raises(DTypeError, match="cannot be stored"):
        cr.io.save_checkpoint(path, thing={(1, frozenset()): 1})
    with pytest.raises(DTypeError, match="cannot be stored"):  # it would come back as another key
        cr.io.save_checkpoint(path, thing={cr.tensor(1.0): 1})


def test_other_names(tmp_path):
    for name in ("checkpoint", "checkpoint.pt", "checkpoint.safetensors"):
        with pytest.raises(ArgumentError, match=r"ends in \.npz"):
            cr.io.save_checkpoint(tmp_path / name, epoch=3)
        with pytest.raises(ArgumentError, match=r"ends in \.npz"):
            cr.io.load_checkpoint(tmp_path / name)


def test_file_that_is_not_there(path):
    with pytest.raises(FileError, match=r"checkpoint\.npz cannot be read: No such file"):
        cr.io.load_checkpoint(path)


# ---------------------------------------------------------------- which one to go on from
def test_latest(tmp_path):
    assert cr.io.latest(tmp_path) is None
    assert cr.io.latest(tmp_path / "missing") is None
    for name in ("checkpoint-9.npz", "checkpoint-010.npz", "checkpoint-.npz", "checkpoint-11.npz.tmp", "checkpoint-x.npz", ".checkpoint-12.npz.0123abcd.tmp", "model.npz"):  # fmt: skip
        (tmp_path / name).write_bytes(b"")
    assert cr.io.latest(str(tmp_path)) == tmp_path / "checkpoint-010.npz"
    (tmp_path / "checkpoint.npz").write_bytes(b"")
    assert cr.io.latest(tmp_path) == tmp_path / "checkpoint.npz"
