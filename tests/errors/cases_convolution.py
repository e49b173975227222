"""Convolution, pooling and batch normalisation that cannot be."""

import numpy as np

import chainrule as cr
from chainrule import nn
from tests.errors.snapshots import case

X = np.ones((2, 4, 5, 5), np.float32)


def kernels(*shape):
    return cr.ones(shape, np.float32, requires_grad=True)


@case
def convolution_of_other_channels():
    nn.conv2d(X, kernels(8, 3, 3, 3))


@case
def convolution_of_an_image_without_channels():
    nn.conv2d(X[0, 0], kernels(8, 4, 3, 3))


@case
def convolution_with_kernels_of_another_rank():
    nn.conv2d(X, kernels(8, 4, 3))


@case
def convolution_with_a_kernel_longer_than_the_input():
    nn.conv2d(X, kernels(8, 4, 3, 3), dilation=(1, 4), padding=1)


@case
def convolution_with_a_bias_of_another_length():
    nn.conv2d(X, kernels(8, 4, 3, 3), kernels(4))


@case
def convolution_in_groups_that_do_not_divide():
    nn.conv2d(X, kernels(9, 2, 3, 3), groups=2)


@case
def convolution_in_no_groups():
    nn.Conv2d(4, 8, 3, groups=0)


@case
def convolution_with_a_stride_of_zero():
    nn.conv1d(X[0], kernels(8, 5, 3), stride=0)


@case
def convolution_with_strides_of_another_rank():
    nn.conv2d(X, kernels(8, 4, 3, 3), stride=(1, 2, 3))


@case
def convolution_of_the_same_size_with_a_stride():
    nn.conv2d(X, kernels(8, 4, 3, 3), stride=2, padding="same")


@case
def transposed_convolution_of_other_channels():
    nn.conv_transpose2d(X, kernels(8, 4, 3, 3))


@case
def transposed_convolution_with_too_much_output_padding():
    nn.conv_transpose2d(X, kernels(4, 8, 3, 3), stride=2, output_padding=2)


@case
def transposed_convolution_padded_away():
    nn.conv_transpose2d(X, kernels(4, 8, 1, 1), padding=3)


@case
def pooling_with_padding_beyond_half_a_kernel():
    nn.max_pool2d(X, 2, padding=2)


@case
def pooling_with_a_kernel_longer_than_the_input():
    nn.MaxPool2d(6)(X)


@case
def mean_over_a_divisor_of_zero():
    nn.avg_pool2d(X, 2, divisor_override=0)


@case
def batch_normalisation_of_one_value_a_channel():
    nn.BatchNorm1d(4)(X[:1, :, 0, 0])


@case
def batch_normalisation_of_other_channels():
    nn.BatchNorm2d(3)(X)


@case
def batch_normalisation_of_another_rank():
    nn.BatchNorm1d(4)(X)


@case
def batch_normalisation_of_no_channels():
    nn.batch_norm(X[0, 0, 0], None, None, training=True)


@case
def batch_normalisation_with_a_weight_of_another_length():
    nn.batch_norm(X, None, None, kernels(3), training=True)


@case
def batch_normalisation_without_estimates():
    nn.batch_norm(X, None, None)


@case
def mean_and_variance_of_integers():
    from chainrule.ops.batch_norm import batch_normal

    batch_normal(np.ones((2, 3), int), np.ones(3, int), np.ones(3, int), 1e-5)
