"""Convolution beside PyTorch's: values, gradients and second order, whatever the sizes; and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError, ShapeError
from chainrule.ops import convolution
from tests.nn import twins
from tests.nn.beside_torch import agree, compare
from tests.nn.twins import Twin
from tests.oracle.peers import peer

RNG = np.random.default_rng(0)


@st.composite
def settings_of_convolution(draw, ndim: int, transposed: bool = False):
    """Shapes and keyword arguments that PyTorch takes, remainders and paddings beyond the kernel included."""
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(ndim))
    groups, into, out = (draw(st.integers(1, 3)) for _ in range(3))
    kernel, stride, dilation, padding = each(1, 4), each(1, 4), each(1, 3), each(0, 5)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        how["output_padding"] = tuple(
            draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)
        )
        least = [
            -(-(2 * p + 1 - r - o) // s) + 1
            for p, r, o, s in zip(padding, reach, how["output_padding"], stride, strict=True)
        ]
    else:
        least = [r - 2 * p for r, p in zip(reach, padding, strict=True)]
    size = tuple(max(1, n) + more for n, more in zip(least, each(0, 5), strict=True))
    weight = (groups * into, out, *kernel) if transposed else (groups * out, into, *kernel)
    n = draw(st.integers(1, 3))
    return (
        (n, groups * into, *size),
        weight,
        (groups * out,),
        how,
        draw(st.booleans()),
        draw(st.sampled_from([1, 1 << 19])),
    )


NAMES = [("conv1d", 1, False), ("conv2d", 2, False), ("conv_transpose1d", 1, True), ("conv_transpose2d", 2, True)]


@pytest.mark.parametrize(("name", "ndim", "transposed"), NAMES)
def test_any_configuration(name, ndim, transposed):
    peer("torch")

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(settings_of_convolution(ndim, transposed))
    def check(drawn):
        x, weight, bias, how, biased, piece = drawn
        arrays = [RNG.normal(size=shape) for shape in (x, weight, bias)[: 2 + biased]]
        ours, theirs = getattr(nn, name), getattr(peer("torch").nn.functional, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(convolution, "_PIECE", piece)  # one line of windows at a time, or all
            compare(lambda *of: ours(*of, **how), lambda *of: theirs(*of, **how), arrays)

    check()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # PyTorch's, about its speed
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("kernel", [(1, 2), (3, 4), (5, 1)])
@pytest.mark.parametrize("dilation", [1, (2, 3)])
def test_padding_in_words(padding, kernel, dilation):
    how = {"padding": padding, "dilation": dilation}
    arrays = [RNG.normal(size=(2, 3, 9, 10)), RNG.normal(size=(4, 3, *kernel))]
    compare(lambda *of: nn.conv2d(*of, **how), lambda *of: peer("torch").nn.functional.conv2d(*of, **how), arrays)


def test_one_example_without_an_axis_for_it():
    torch = peer("torch").nn.functional
    x, w, b = RNG.normal(size=(3, 5, 6)), RNG.normal(size=(3, 2, 2, 2)), RNG.normal(size=2)
    compare(nn.conv2d, torch.conv2d, [x, RNG.normal(size=(2, 3, 2, 2)), b])
    compare(nn.conv_transpose2d, torch.conv_transpose2d, [x, w, b])
    compare(nn.conv1d, torch.conv1d, [x[0], RNG.normal(size=(2, 5, 3))])


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_no_examples(batch, groups):
    """Nothing in, nothing out, and gradients of zeros."""
    x = cr.tensor(np.ones((batch, 4, 5, 5)), requires_grad=True)
    w = cr.tensor(RNG.normal(size=(8, 4 // groups, 3, 3)), requires_grad=True)
    b = cr.tensor(RNG.normal(size=8), requires_grad=True)
    for stride in (1, 2):
        y = nn.conv2d(x, w, b, stride=stride, groups=groups)
        assert y.shape == (batch, 8, 2 // stride + 1, 2 // stride + 1)
        gs = cr.gradients(y.sum(), [x, w, b])
        assert [g.shape for g in gs] == [x.shape, w.shape, b.shape]
        assert all(np.any(g) == bool(batch) for g in gs)
    back = nn.conv_transpose2d(x, cr.ones((4, 2, 3, 3)), stride=2)
    assert back.shape == (batch, 2, 11, 11)


def test_whatever_the_memory_of_the_input():
    """Channels last, every other entry, backwards, read-only: the same values and gradients."""
    x, w = RNG.normal(size=(2, 3, 8, 9)), RNG.normal(size=(4, 3, 3, 3))
    expected = nn.conv2d(x, w, padding=1, stride=2)
    big = np.full((4, 6, 16, 18), np.nan)
    big[::2, ::2, ::2, ::2] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    for same in (big[::2, ::2, ::2, ::2], last, x[::-1, :, ::-1].copy()[::-1, :, ::-1], np.asfortranarray(x), frozen):
        np.testing.assert_allclose(nn.conv2d(same, w, padding=1, stride=2), expected, rtol=1e-13)
        t, k = cr.asarray(same), cr.tensor(w, requires_grad=True)
        t.requires_grad = True
        gs = cr.gradients((nn.conv2d(t, k, padding=1, stride=2) ** 2).sum(), [t, k])
        xs = [cr.tensor(x, requires_grad=True), cr.tensor(w, requires_grad=True)]
        for g, h in zip(gs, cr.gradients((nn.conv2d(*xs, padding=1, stride=2) ** 2).sum(), xs), strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-12, atol=1e-12)


def test_gradient_of_the_weight_lies_in_rows():
    """So that an optimiser's arrays and the weight's have one order in memory."""
    for groups in (1, 2, 4):
        w = cr.ones((4, 4 // groups, 3, 3), requires_grad=True)
        (g,) = cr.gradients(nn.conv2d(cr.ones((2, 4, 5, 5)), w, groups=groups).sum(), [w])
        assert g.flags.c_contiguous


def test_integers_are_exact_and_dtypes_are_promoted():
    life = np.array([[[[0, 1, 0], [0, 1, 0], [0, 1, 0]]]])
    neighbours = nn.conv2d(life, np.ones((1, 1, 3, 3), int), padding=1) - life
    assert neighbours.dtype == int
    assert neighbours.tolist() == [[[[2, 1, 2], [3, 2, 3], [2, 1, 2]]]]
    assert nn.conv2d(life.astype(np.uint8), np.ones((1, 1, 3, 3), np.float32)).dtype == np.float32


@pytest.mark.parametrize(("stride", "kernel", "size"), [(2, 2, 5), (3, 2, 8), (2, 1, 5)])
@pytest.mark.parametrize("pool", [False, True])
def test_a_nan_that_no_window_reads_stays_out_of_the_gradient(stride, kernel, size, pool):
    """Right of the last window, and between windows."""
    read = np.zeros(size, bool)
    for start in range(0, size - kernel + 1, stride):
        read[start : start + kernel] = True
    t = cr.tensor(np.where(read, np.arange(1.0, size + 1), -1.0), requires_grad=True)
    with np.errstate(invalid="ignore"):
        root = cr.sqrt(t).reshape(1, 1, size)
    weight = cr.ones((1, 1, kernel))
    y = nn.max_pool1d(root, kernel, stride) if pool else nn.conv1d(root, weight, stride=stride)
    (g,) = cr.gradients(y.sum(), [t])
    assert np.isfinite(g).all()
    assert not g[~read].any()


def test_forward_mode_and_hessian_symmetry():
    x, w, b = RNG.normal(size=(2, 2, 5)), RNG.normal(size=(4, 1, 2)), RNG.normal(size=4)
    f = lambda *of: (nn.conv1d(*of, stride=2, padding=1, groups=2) ** 3).sum()
    v = [RNG.normal(size=a.shape) for a in (x, w, b)]
    _, t = cr.jvp(f, (x, w, b), tuple(v))
    gs = cr.grad(f, argnums=(0, 1, 2))(x, w, b)
    assert float(t) == pytest.approx(sum((g * d).sum() for g, d in zip(gs, v, strict=True)))
    h = cr.hessian(lambda w: f(x, w, b))(w).reshape(8, 8)
    np.testing.assert_allclose(h, h.T, rtol=1e-12)


# --------------------------------------------------------------------------------------------------------------- layers
def both(name, *of, **how):
    """The same arguments for both sides."""
    return lambda **made: getattr(nn, name)(*of, **how, **made), lambda t: getattr(t.nn, name)(*of, **how)


test_twins = twins.tests(
    Twin("Conv1d", *both("Conv1d", 4, 6, 3, stride=2, padding=1), [(2, 4, 10)]),
    Twin("Conv1d same", *both("Conv1d", 4, 6, 4, padding="same", dilation=2, groups=2, bias=False), [(2, 4, 9)]),
    Twin("Conv2d", *both("Conv2d", 3, 8, 3), [(2, 3, 7, 8)]),
    Twin("Conv2d all", *both("Conv2d", 4, 8, (3, 2), (2, 3), (2, 0), (1, 2), 2), [(3, 4, 9, 11)]),
    Twin("Conv2d per channel", *both("Conv2d", 4, 4, 3, padding=1, groups=4), [(2, 4, 5, 5)]),
    Twin("Conv2d of one entry", *both("Conv2d", 4, 6, 1), [(2, 4, 5, 5)]),
    Twin("ConvTranspose1d", *both("ConvTranspose1d", 4, 6, 4, 2, 1), [(2, 4, 5)]),
    Twin("ConvTranspose2d", *both("ConvTranspose2d", 4, 6, 3, 2, 1, 1, 2, True, 2), [(2, 4, 5, 6)]),
)  # fmt: skip


def test_starts_as_pytorch():
    for layer, fan in ((nn.Conv2d(8, 300, 5, groups=2), 100), (nn.ConvTranspose2d(300, 8, 5, groups=2), 100)):
        for tensor in layer.parameters():
            assert np.abs(tensor.data).max() <= fan**-0.5
        assert layer.weight.data.std() == pytest.approx(fan**-0.5 / 3**0.5, rel=0.02)
        assert np.abs(layer.weight.data).max() == pytest.approx(fan**-0.5, rel=0.01)


def test_the_generator_is_used():
    one, same, other = (nn.Conv2d(2, 3, 3, generator=cr.random.generator(seed)) for seed in (0, 0, 1))
    agree(one.weight, same.weight.data, "one seed")
    assert not np.array_equal(one.weight.data, other.weight.data)


def test_settings_are_shown():
    assert repr(nn.Conv2d(3, 16, 3, padding=1)).startswith("Conv2d(in_channels=3, out_channels=16, kernel_size=(3, 3)")


X = np.ones((2, 4, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.conv2d(X, np.ones((8, 3, 3, 3))), ShapeError, "has 4 channels, the weight reads 3"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), groups=2), ShapeError, "the weight reads 8"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3))), ShapeError, "no set of kernels"),
        (lambda: nn.conv2d(X[0, 0], np.ones((8, 4, 3, 3))), ShapeError, "2 axes.*expected .n, channels, height, width"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 6, 3))), ShapeError, "reaches over 6 entries along axis -2.*there are 5"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), dilation=3), ShapeError, "reaches over 7"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), np.ones(4)), ShapeError, r"bias f64\[4\], expected \[8\]"),
        (lambda: nn.conv2d(X, np.ones((9, 2, 3, 3)), groups=2), ArgumentError, "2 groups do not divide 9 channels"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), groups=0), ArgumentError, "groups is no positive integer"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), stride=0), ArgumentError, "bad stride 0"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), stride=(1, 2, 3)), ArgumentError, "bad stride"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), padding=-1), ArgumentError, "bad padding -1"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), padding="same", stride=2), ArgumentError, "with stride 1 'same'"),
        (lambda: nn.conv2d(X, np.ones((8, 4, 3, 3)), padding="full"), ArgumentError, "'valid'"),
        (lambda: nn.conv_transpose2d(X, np.ones((8, 4, 3, 3))), ShapeError, "has 4 channels, the weight reads 8"),
        (lambda: nn.conv_transpose2d(X, np.ones((4, 4, 3, 3)), output_padding=1), ArgumentError, "output_padding"),
        (lambda: nn.conv_transpose2d(X, np.ones((4, 4, 1, 1)), padding=3), ShapeError, "nothing is left"),
        (lambda: nn.Conv2d(4, 9, 3, groups=2), ArgumentError, "2 groups do not divide 9"),
        (lambda: nn.Conv2d(0, 9, 3), ArgumentError, "in_channels"),
        (lambda: nn.Conv2d(4, 9, 0), ArgumentError, "bad kernel_size 0"),
        (lambda: nn.Conv2d(4, 8, 3)(np.ones((2, 3, 5, 5))), ShapeError, "Conv2d: the input has 3 channels"),
    ],
)  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
