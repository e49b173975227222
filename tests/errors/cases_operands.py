"""Operands, shapes, dtypes, arguments and indices that an operation cannot take."""

import numpy as np

import chainrule as cr
from tests.errors.snapshots import case


def leaf(*shape, dtype=np.float64):
    return cr.ones(shape, dtype, requires_grad=True)


def f32(*shape):
    return leaf(*shape, dtype=np.float32)


# ---------------------------------------------------------------- shapes
@case
def matmul_inner_dimensions():
    f32(64, 128) @ f32(64, 10)


@case
def matmul_of_a_number():
    leaf(3) @ 2.0


@case
def matmul_batches():
    leaf(5, 2, 3) @ leaf(4, 3, 2)


@case
def add_does_not_broadcast():
    f32(200, 16) + f32(200)


@case
def where_does_not_broadcast():
    cr.where(np.ones(3, bool), leaf(2), 0.0)


@case
def reshape_does_not_fill():
    leaf(2, 3).reshape(4, 2)


@case
def reshape_two_unknown_lengths():
    leaf(2, 3).reshape(-1, -1)


@case
def broadcast_to_another_shape():
    cr.broadcast_to(leaf(2, 3), (2, 4))


@case
def squeeze_a_longer_axis():
    cr.squeeze(leaf(2, 3), 0)


@case
def concat_shapes_differ():
    cr.concat([leaf(2, 3), leaf(2, 4)])


@case
def stack_shapes_differ():
    cr.stack([leaf(2), leaf(3)])


@case
def max_of_nothing():
    cr.max(leaf(0))


@case
def transpose_of_a_vector():
    cr.matrix_transpose(leaf(3))


@case
def rows_of_different_lengths():
    cr.tensor([[1.0, 2.0], [3.0]])


@case
def in_place_grows():
    t = leaf(2) * 1.0
    t += np.ones((3, 2))


@case
def in_place_grows_without_gradient():
    t = cr.ones(2)
    t *= np.ones((3, 2))


@case
def assignment_does_not_fit():
    t = leaf(2) * 1.0
    t[:] = np.ones(3)


@case
def item_of_many():
    leaf(2).item()


@case
def bool_of_many():
    if leaf(2) > 0:
        pass


@case
def len_of_a_number():
    len(cr.tensor(1.0))


@case
def iteration_over_a_number():
    list(cr.tensor(1.0))


# ---------------------------------------------------------------- dtypes and operands
@case
def add_none():
    leaf(2) + None


@case
def multiply_text():
    "2" * leaf(2)


@case
def tanh_of_text():
    cr.tanh("2")


@case
def sum_of_text():
    cr.sum("2")


@case
def add_a_list_of_tensors():
    cr.add(leaf(2), [leaf(2), leaf(2)])


@case
def number_too_large():
    cr.tensor([1, 2], np.int8) + 1000


@case
def tensor_of_text():
    cr.tensor(["a", "b"])


@case
def tensor_of_none():
    cr.tensor(None)


@case
def tensor_of_a_tensor_with_a_graph():
    cr.tensor(leaf(2))


@case
def unknown_dtype():
    leaf(2).astype("float31")


@case
def default_dtype_that_does_not_float():
    cr.set_default_dtype(int)


@case
def gradient_of_integers():
    cr.tensor([1, 2], requires_grad=True)


@case
def in_place_into_integers():
    t = cr.tensor([1, 2])
    t /= 2


@case
def recorded_in_place_into_integers():
    t = cr.tensor([1, 2])
    t += leaf(2)


@case
def index_with_a_float():
    [10, 20][cr.tensor(1.0)]


# ---------------------------------------------------------------- arguments
@case
def axis_out_of_range():
    leaf(2, 3).sum(axis=2)


@case
def axis_named_twice():
    leaf(2, 3).mean(axis=(0, -2))


@case
def axis_that_is_no_integer():
    leaf(2, 3).max(axis=1.5)


@case
def axis_of_a_number():
    cr.softmax(cr.tensor(1.0))


@case
def permutation_with_a_gap():
    cr.permute_dims(leaf(2, 3), (0, 0))


@case
def negative_length():
    cr.zeros((2, -1))


@case
def shape_of_text():
    cr.ones("2")


@case
def concat_of_nothing():
    cr.concat([])


@case
def split_unevenly():
    cr.split(leaf(4), 3)


@case
def cumulative_sum_without_axis():
    cr.cumulative_sum(leaf(2, 3))


@case
def eye_of_a_fraction():
    cr.eye(2.5)


@case
def linspace_of_minus_one():
    cr.linspace(0.0, 1.0, -1)


@case
def arange_without_step():
    cr.arange(0, 3, 0)


# ---------------------------------------------------------------- indices
@case
def index_out_of_bounds():
    leaf(2, 3)[2]


@case
def index_with_text():
    leaf(2, 3)["a"]


@case
def too_many_indices():
    leaf(2, 3)[0, 0, 0]


@case
def mask_of_another_shape():
    leaf(2, 3)[np.array([True, False, True])]


@case
def assignment_out_of_bounds():
    cr.zeros(2)[5] = 1.0


# ---------------------------------------------------------------- NumPy's protocols
@case
def numpy_svd():
    np.linalg.svd(leaf(2, 2))


@case
def numpy_fft():
    np.fft.fft(leaf(2))


@case
def numpy_median():
    np.median(leaf(2))


@case
def numpy_ufunc_method():
    np.subtract.outer(leaf(2), leaf(2))


@case
def numpy_out():
    np.exp(leaf(2), out=np.zeros(2))


@case
def numpy_in_place():
    a = np.zeros(2)
    a += leaf(2)


@case
def numpy_where_argument():
    np.exp(leaf(2), where=np.array([True, False]))


@case
def numpy_sum_initial():
    np.sum(leaf(2), initial=1.0)


@case
def numpy_where_of_one_argument():
    np.where(leaf(2))


@case
def numpy_spectral_norm():
    np.linalg.norm(leaf(2, 2), 2)


@case
def numpy_array_of_a_tensor():
    np.asarray(leaf(2))


@case
def numpy_dot_of_stacks():
    np.dot(leaf(2, 3, 4), leaf(2, 4, 3))
