"""DESIGN 2 and 3: NumPy's protocols and `__array__`.

| sentence | test |
|--|--|
| NumPy spellings (`np.exp(t)`, `np.mean(t)`) reach the same operations through NumPy's protocols | test_numpy_functions_give_numpys_values, test_numpy_functions_are_differentiable |
| `A @ t`, `np.float64(2) * t` with arrays and NumPy scalars on the left | test_arrays_and_scalars_on_the_left |
| derived from the records | test_the_table_is_derived_from_the_records |
| what is not mapped raises and names the nearest mapped function if one is near, never detaches | test_what_is_not_mapped_raises_and_names_the_nearest, test_nothing_in_numpy_detaches |
| a ufunc of another library has its own name, and a derivative once a record runs it | test_a_ufunc_of_another_library_is_not_called_numpys, test_a_record_for_a_ufunc_of_another_library_answers_for_it |
| `out=`, `where=` raise | test_out_and_where_raise |
| functions whose meaning differs by more than names answer as NumPy does, or refuse | test_matrix_norms_are_refused |
| values no gradient could flow through | test_questions_get_numpys_answers |
| `__array__` on a tensor that wants a gradient raises | test_array_of_a_tensor_that_wants_a_gradient_raises |
| `np.asarray(t.detach())` is free | test_asarray_of_a_detached_tensor_is_free |
"""

import operator
import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.primitive import PRIMITIVES
from chainrule.errors import ChainruleError, DTypeError, GraphError
from chainrule.interop import _table
from chainrule.ops.families import unary

rng = np.random.default_rng(0)
VALUES = {
    "A": rng.normal(size=(3, 4)), "v": rng.normal(size=4), "S": rng.normal(size=(3, 3)), "T": rng.normal(size=(2, 3, 4)),
    "P": rng.uniform(0.2, 0.9, (3, 4)),
}  # fmt: skip
# What NumPy says is compared with what it says of tensors: value, shape and dtype.
MAPPED = """
np.exp(A) | np.exp2(A) | np.expm1(A) | np.log(P) | np.log2(P) | np.log10(P) | np.log1p(P) | np.sqrt(P) | np.square(A)
np.abs(A) | np.absolute(A) | np.fabs(A) | np.sign(A) | np.negative(A) | np.positive(A) | np.reciprocal(A) | np.sin(A)
np.cos(A) | np.tan(A) | np.arcsin(P) | np.arccos(P) | np.arctan(A) | np.arctan2(A, v) | np.hypot(A, v) | np.sinh(A)
np.cosh(A) | np.tanh(A) | np.arcsinh(A) | np.arccosh(P + 1) | np.arctanh(P) | np.add(A, v) | np.subtract(A, v)
np.multiply(A, v) | np.divide(A, v) | np.true_divide(A, v) | np.power(P, v) | np.mod(A, v) | np.remainder(A, v)
np.floor_divide(A, v) | np.maximum(A, v) | np.minimum(A, v) | np.logaddexp(A, v) | np.sinc(A) | np.floor(A) | np.ceil(A)
np.trunc(A) | np.rint(A) | np.round(A) | np.isnan(A) | np.isinf(A) | np.isfinite(A) | np.signbit(A) | np.copysign(A, v)
np.less(A, v) | np.greater_equal(A, v) | np.equal(A, A) | np.logical_and(A > 0, A < 1) | np.logical_not(A > 0)
np.sum(A) | np.sum(A, 0) | np.sum(A, axis=1, keepdims=True) | np.sum(A, axis=(0, 1)) | np.sum(A, -1) | np.mean(A)
np.mean(A, 0) | np.mean(A, axis=0) | np.prod(A, 1) | np.max(A, 1) | np.amax(A) | np.min(A, 0) | np.amin(A) | np.var(A)
np.var(A, 0, ddof=1) | np.std(A, axis=1) | np.all(A > 0, 0) | np.any(A > 0) | np.argmax(A) | np.argmax(A, 1)
np.argmin(A, axis=0) | np.cumsum(A) | np.cumsum(A, 1) | np.cumprod(A, axis=0) | np.count_nonzero(A)
np.linalg.norm(A) | np.linalg.norm(v) | np.linalg.norm(v, 1) | np.linalg.norm(A, axis=1) | np.linalg.norm(A, 'fro')
np.linalg.norm(A, 3, 0) | np.linalg.norm(T) | np.linalg.vector_norm(A) | np.linalg.vector_norm(A, ord=1)
np.linalg.vector_norm(A, axis=0) | np.add.reduce(A) | np.add.reduce(A, axis=1) | np.multiply.reduce(A)
np.maximum.reduce(A, axis=None) | np.add.accumulate(A) | np.reshape(A, (4, 3)) | np.reshape(A, -1) | np.ravel(A)
np.transpose(A) | np.transpose(T) | np.transpose(T, (1, 0, 2)) | np.permute_dims(T, (1, 0, 2)) | np.swapaxes(A, 0, 1)
np.moveaxis(T, 0, -1) | np.expand_dims(A, 0) | np.squeeze(A[None]) | np.broadcast_to(v, (3, 4)) | np.flip(A)
np.flip(A, 0) | np.roll(A, 1) | np.roll(A, 1, 1) | np.roll(A, (1, 2), (0, 1)) | np.repeat(A, 2) | np.repeat(A, 2, 1)
np.repeat(v, [1, 0, 2, 1]) | np.tile(A, 2) | np.tile(v, (2, 1)) | np.pad(A, 1) | np.pad(A, ((0, 1), (2, 0)))
np.pad(A, 1, 'edge') | np.pad(A, 1, 'reflect') | np.pad(v, 1, constant_values=3.0) | np.tril(A) | np.triu(A, 1)
np.tril(A, k=-1) | np.diagonal(A) | np.diagonal(T) | np.diagonal(T, 0, 1, 2) | np.diag(v) | np.diag(A) | np.diag(v, 1)
np.linalg.trace(T) | np.linalg.diagonal(T) | np.concatenate([A, A]) | np.concatenate([A, A], 1) | np.concatenate((A, S), axis=1)
np.concatenate([A, A], axis=None) | np.concat([A, A]) | np.stack([A, A]) | np.stack([A, A], axis=-1) | np.unstack(A)
np.split(A, 2, 1) | np.split(A, [1, 3], axis=1) | np.meshgrid(v, v) | np.broadcast_arrays(A, v) | np.take(A, [0, 2])
np.take(A, [0, 2], 1) | np.sort(A) | np.sort(A, 0) | np.argsort(A) | np.where(A > 0, A, v) | np.clip(A, 0, 1)
np.clip(A, None, v) | np.clip(A, a_min=0, a_max=1) | np.clip(A, min=0, max=1) | np.matmul(A, v) | np.dot(A, v)
np.dot(v, v) | np.dot(A, A.T) | np.dot(T, v) | np.dot(2.0, v) | np.dot(v, np.swapaxes(T, 1, 2)) | np.linalg.matmul(A, A.T)
np.matrix_transpose(A) | np.linalg.matrix_transpose(A) | np.zeros_like(A) | np.full_like(A, 2.0) | np.ones_like(A)
"""
CALLS = [call.strip() for line in MAPPED.strip().splitlines() for call in line.split(" | ")]


def arrays(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("call", CALLS)
def test_numpy_functions_give_numpys_values(call: str):
    tensors = {name: cr.tensor(a, requires_grad=True) for name, a in VALUES.items()}
    expected = arrays(eval(call, {"np": np, **VALUES}))
    found = arrays(eval(call, {"np": np, **tensors}))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, cr.Tensor)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.allclose(one.data, other)


def test_numpy_functions_are_differentiable():
    """Wherever the values of NumPy's function float and change, its result wants a gradient."""
    constant = ("zeros_like", "ones_like", "full_like", "np.sign(", "floor", "ceil", "trunc", "rint", "round(")
    for call in CALLS:
        tensors = {name: cr.tensor(a, requires_grad=True) for name, a in VALUES.items()}
        for result in arrays(eval(call, {"np": np, **tensors})):
            floats = result.dtype.kind == "f" and not any(name in call for name in constant)
            assert result.requires_grad == floats, call


def test_arrays_and_scalars_on_the_left():
    t = cr.tensor([1.0, 2.0], requires_grad=True)
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    cases = {
        "matmul": (a @ t, [5.0, 11.0]), "float64": (np.float64(2) * t, [2.0, 4.0]), "array": (a - t, (a - [1.0, 2.0]).tolist()),
        "float32": (np.float32(2) / t, [2.0, 1.0]), "power": (np.float64(2) ** t, [2.0, 4.0]), "int": (np.int64(1) + t, [2.0, 3.0]),
        "floor": (np.array([5.0, 5.0]) // t, [5.0, 2.0]), "list": (operator.add([1.0, 2.0], t), [2.0, 4.0]),
    }  # fmt: skip
    for name, (result, expected) in cases.items():
        assert isinstance(result, cr.Tensor), name
        assert result.tolist() == expected, name
    assert (np.array([1.0, 3.0]) == t).tolist() == [True, False]
    assert (np.array([1.0, 3.0]) > t).tolist() == [False, True]
    (a @ t).sum().backward()
    assert t.grad.tolist() == [4.0, 6.0]


def test_the_table_is_derived_from_the_records():
    for name in ("exp", "tanh", "add", "maximum", "floor"):
        assert _table()[getattr(np, name)] is PRIMITIVES[name].call
    assert len(_table()) > 100


UNMAPPED = {
    "np.linalg.svd(A)": "np.linalg.svd: has no derivative rule",
    "np.fft.fft(v)": "np.fft.fft: has no derivative rule",
    "np.nansum(A)": "np.nansum: has no derivative rule in chainrule · try np.sum",
    "np.median(A)": "np.median: has no derivative rule in chainrule · try np.mean",
    "np.fliplr(A)": "np.fliplr: has no derivative rule in chainrule · try np.flip",
    "np.vstack([A, A])": "np.vstack: has no derivative rule in chainrule · try np.stack",
    "np.float_power(P, v)": "np.float_power: has no derivative rule in chainrule · try np.power",
    "np.cbrt(A)": "np.cbrt: has no derivative rule in chainrule · try cr.operation",
    "np.subtract.outer(v, v)": "np.subtract.outer: has no derivative rule",
    "np.add.at(np.zeros(4), [0, 1, 2, 3], v)": "np.add.at: has no derivative rule",
    "np.copyto(np.zeros(4), v)": "np.copyto: has no derivative rule",
    "np.interp(v, [0, 1], [0, 1])": "np.interp: has no derivative rule",
    "np.linalg.inv(S)": "np.linalg.inv: has no derivative rule in chainrule · try cr.operation",
}


@pytest.mark.parametrize("call", UNMAPPED)
def test_what_is_not_mapped_raises_and_names_the_nearest(call: str):
    tensors = {name: cr.tensor(a, requires_grad=True) for name, a in VALUES.items()}
    with pytest.raises(DTypeError) as raised:
        eval(call, {"np": np, **tensors})
    assert UNMAPPED[call] in str(raised.value)
    assert "or x.detach() to give up the gradient" in str(raised.value)


def test_a_ufunc_of_another_library_is_not_called_numpys():
    special = pytest.importorskip("scipy.special")
    with pytest.raises(DTypeError, match=r"^erf: has no derivative rule in chainrule · try cr\.operation"):
        special.erf(cr.tensor(1.0))


def test_a_record_for_a_ufunc_of_another_library_answers_for_it(monkeypatch: pytest.MonkeyPatch):
    special = pytest.importorskip("scipy.special")
    assert special.erf not in _table()  # which is never made anew
    rule = lambda ct, x: ct * 2.0 / np.sqrt(np.pi) * np.exp(-x * x)
    monkeypatch.setitem(PRIMITIVES, "error_function", PRIMITIVES["exp"])  # which is taken away afterwards
    unary("error_function", rule, forward=special.erf)
    cr.verify.check(lambda x: special.erf(x) * x, np.linspace(-1.0, 1.0, 3))


def test_nothing_in_numpy_detaches():
    """Every public function of NumPy that takes one array: an error, or a result that is no plain floating array."""
    t = cr.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
    skipped = {
        "save",
        "savez",
        "savez_compressed",
        "savetxt",
        "asarray",
        "info",
        "source",
        "show_config",
        "test",
        "put",
        "asmatrix",
        "bmat",
    }
    silent = []
    for home in (np, np.linalg, np.fft):
        for name in sorted(set(dir(home)) - skipped):
            function = getattr(home, name)
            if (
                name.startswith(("_", "set", "load", "from", "gen"))
                or isinstance(function, type)
                or not callable(function)
            ):
                continue
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # deprecated names of NumPy are tried as well
                    result = function(t)
            except (ChainruleError, TypeError, ValueError, AttributeError, KeyError):
                continue
            if any(isinstance(one, np.ndarray) and one.dtype.kind in "fcO" for one in arrays(result)):
                silent.append(f"{home.__name__}.{name}")
    assert silent == []


def test_out_and_where_raise():
    t, out = cr.tensor([1.0, 2.0], requires_grad=True), np.zeros(2)
    for refused in (
        lambda: np.exp(t, out=out),
        lambda: np.exp(t, out),
        lambda: np.add(out, t, out=out),
        lambda: np.sum(t, out=np.zeros(())),
        lambda: np.mean(t, out=np.zeros(())),
        lambda: np.concatenate([t, t], out=np.zeros(4)),
        lambda: np.matmul(t, t, out=np.zeros(())),
        lambda: np.exp(t, where=np.array([True, False])),
        lambda: np.sum(t, where=np.array([True, False])),
        lambda: np.add.reduce(t, where=np.array([True, False])),
        lambda: np.add.reduce(t, 0, None, out),
        lambda: np.sum(t, initial=1.0),
        lambda: np.exp(t, dtype=np.float32),
        lambda: np.where(t),
        lambda: np.round(t, 2),
    ):
        with pytest.raises(DTypeError):
            print(refused())
    with pytest.raises(DTypeError, match="a plain array cannot take the value of a tensor"):
        out += t
    with pytest.raises(DTypeError, match="the argument 'where' has no meaning for tensors"):
        np.exp(t, where=np.array([True, False]))
    assert out.tolist() == [0.0, 0.0]


def test_matrix_norms_are_refused():
    t = cr.tensor(VALUES["A"], requires_grad=True)
    for order, axis in ((2, None), (1, None), (np.inf, None), ("nuc", None), (1, (0, 1))):
        with pytest.raises(DTypeError, match="of a matrix has no derivative rule"):
            np.linalg.norm(t, order, axis)


def test_questions_get_numpys_answers():
    t = cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert np.shape(t) == (2, 2)
    assert (np.ndim(t), np.size(t), np.size(t, 0)) == (2, 4, 2)
    assert np.allclose(t, t.data)
    assert np.array_equal(t, t)
    assert np.isclose(t, 1.0).tolist() == [[True, False], [False, False]]
    assert np.result_type(t, np.float32) == np.float64
    assert not np.iscomplexobj(t)


def test_array_of_a_tensor_that_wants_a_gradient_raises():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    plain = np.zeros(2)
    for detaching in (
        lambda: np.asarray(x),
        lambda: np.array(x),
        lambda: np.array(x * 2.0, np.float32),
        lambda: np.array([x, x]),
        lambda: np.array([x[0], x[1]]),
        lambda: plain.__setitem__(slice(None), x),
        lambda: np.array(x, dtype=object),
        lambda: np.random.default_rng(0).normal(x),
        lambda: np.frompyfunc(lambda v: v, 1, 1)(x),
        lambda: x.numpy(),
        lambda: (x * 2.0).numpy(),
    ):
        with pytest.raises((GraphError, DTypeError)):
            print(detaching())
    with pytest.raises(GraphError, match=r"would silently lose it .* try x\.detach\(\) first"):
        np.asarray(x)
    with cr.no_grad():
        assert np.asarray(x * 2.0).tolist() == [2.0, 4.0]


def test_asarray_of_a_detached_tensor_is_free():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2.0
    assert np.shares_memory(np.asarray(y.detach()), y.data)
    plain = cr.tensor([1.0, 2.0])
    assert np.asarray(plain) is plain.data
    assert plain.numpy() is plain.data
    assert np.array(plain) is not plain.data
    assert np.asarray(plain, np.float32).dtype == np.float32
    assert np.asarray(x.detach()).tolist() == [
        1.0,
        2.0,
    ]  # a leaf is written where it stands: its detached value is a copy
    with pytest.raises(ValueError, match="copy"):
        np.array(plain, dtype=np.float32, copy=False)
