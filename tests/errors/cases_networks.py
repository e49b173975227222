"""Layers, their functions and losses."""

import numpy as np

import chainrule as cr
from chainrule import nn
from tests.errors.snapshots import case


def f32(*shape):
    return cr.ones(shape, np.float32, requires_grad=True)


# ---------------------------------------------------------------- losses
@case
def cross_entropy_of_a_class_that_is_not_there():
    nn.cross_entropy(f32(3, 5), [0, 1, -4], ignore_index=-1)


@case
def cross_entropy_of_one_class_too_many():
    nn.cross_entropy(f32(2, 3, 2), np.array([[0, 1], [2, 255]], np.uint8))


@case
def cross_entropy_of_a_column_of_classes():
    nn.cross_entropy(f32(3, 5), [[0], [1], [2]])


@case
def cross_entropy_of_floating_classes():
    nn.cross_entropy(f32(3, 5), [0.0, 1.0, 2.0])


@case
def cross_entropy_of_truth_values():
    nn.cross_entropy(f32(2, 2), [True, False])


@case
def cross_entropy_of_a_number():
    nn.cross_entropy(f32(), 0)


@case
def cross_entropy_with_weights_of_other_classes():
    nn.cross_entropy(f32(3, 5), [0, 1, 2], weight=np.ones(4))


@case
def cross_entropy_smoothed_too_much():
    nn.cross_entropy(f32(3, 5), [0, 1, 2], label_smoothing=10)


@case
def cross_entropy_of_an_unknown_reduction():
    nn.cross_entropy(f32(3, 5), [0, 1, 2], reduction="avg")


@case
def nll_loss_of_a_class_that_is_not_there():
    nn.nll_loss(f32(3, 5), [0, 5, 2])


@case
def multi_margin_loss_of_an_odd_power():
    nn.multi_margin_loss(f32(3, 5), [0, 1, 2], p=3)


@case
def loss_of_a_column_and_a_vector():
    nn.mse_loss(f32(3, 1), np.ones(3))


@case
def loss_of_an_unknown_reduction():
    nn.l1_loss(f32(3), np.ones(3), reduction="batchmean")


@case
def huber_loss_of_no_width():
    nn.huber_loss(f32(3), np.ones(3), delta=0)


@case
def smooth_l1_loss_of_negative_width():
    nn.smooth_l1_loss(f32(3), np.ones(3), beta=-1)


# ---------------------------------------------------------------- linear
@case
def linear_of_other_features():
    nn.linear(f32(8, 3), f32(5, 4))


@case
def linear_by_a_weight_the_other_way_round():
    nn.linear(f32(8, 3), f32(3, 4))


@case
def linear_with_a_bias_of_another_length():
    nn.linear(f32(8, 3), f32(4, 3), f32(3))
