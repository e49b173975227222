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


# ---------------------------------------------------------------- activations and normalisation
@case
def gelu_by_an_unknown_formula():
    nn.gelu(f32(3), approximate="sigmoid")


@case
def layer_norm_over_other_axes():
    nn.layer_norm(f32(4, 3), 4)


@case
def layer_norm_over_no_axis():
    nn.layer_norm(f32(4, 3), ())


@case
def layer_norm_with_another_weight():
    nn.layer_norm(f32(4, 3), 3, f32(4))


@case
def rms_norm_with_a_negative_eps():
    nn.rms_norm(f32(4, 3), 3, eps=-1.0)


# ---------------------------------------------------------------- attention
@case
def attention_of_other_features():
    nn.scaled_dot_product_attention(f32(2, 3, 8), f32(2, 5, 4), f32(2, 5, 4))


@case
def attention_without_a_value_for_each_key():
    nn.scaled_dot_product_attention(f32(3, 8), f32(5, 8), f32(4, 8))


@case
def attention_of_vectors():
    nn.scaled_dot_product_attention(f32(8), f32(5, 8), f32(5, 8))


@case
def attention_of_other_batches():
    nn.scaled_dot_product_attention(f32(2, 3, 8), f32(4, 5, 8), f32(4, 5, 8))


@case
def attention_with_a_mask_of_another_shape():
    nn.scaled_dot_product_attention(f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8), np.ones((3, 4), bool))


@case
def attention_with_a_mask_of_integers():
    nn.scaled_dot_product_attention(f32(3, 8), f32(5, 8), f32(5, 8), np.ones((3, 5), int))


@case
def attention_that_drops_more_than_all():
    nn.scaled_dot_product_attention(f32(3, 8), f32(5, 8), f32(5, 8), dropout_p=1.5)


@case
def heads_that_do_not_divide_the_features():
    nn.MultiheadAttention(8, 3)


@case
def heads_of_no_number():
    nn.MultiheadAttention(8, 0)


@case
def multihead_attention_of_other_features():
    attention = nn.MultiheadAttention(8, 2, batch_first=True, dtype=np.float32)
    attention(f32(2, 3, 6), f32(2, 3, 6), f32(2, 3, 6))


@case
def cache_that_would_lose_the_graph():
    nn.TransformerBlock(8, 2, dtype=np.float32)(f32(1, 2, 8), cache=nn.KeyValueCache())


@case
def cache_of_another_batch():
    cache, block = nn.KeyValueCache(), nn.TransformerBlock(8, 2, dtype=np.float32)
    with cr.no_grad():
        block(f32(1, 2, 8), cache=cache)
        block(f32(2, 1, 8), cache=cache)


# ---------------------------------------------------------------- recurrent layers
@case
def gru_of_other_features():
    nn.GRU(3, 4)(f32(5, 2, 4))


@case
def gru_from_a_state_of_another_shape():
    nn.GRU(3, 4)(f32(5, 2, 3), f32(2, 2, 4))


@case
def lstm_from_one_state():
    nn.LSTM(3, 4)(f32(5, 2, 3), f32(1, 2, 4))


@case
def lstm_of_no_layers():
    nn.LSTM(3, 4, num_layers=0)


@case
def loss_with_an_unknown_option():
    nn.CrossEntropyLoss(size_average=True)
