"""Random draws, seeds and states."""

import numpy as np

import chainrule as cr
from chainrule.core.equations import tracing
from tests.errors.snapshots import case


@case
def random_negative_deviation():
    cr.random.normal(3, std=-1.0)


@case
def random_deviation_too_large_for_float32():
    cr.random.normal(3, std=1e39, dtype=np.float32)


@case
def random_normal_integers():
    cr.random.normal(3, dtype=np.int64)


@case
def random_empty_interval():
    cr.random.uniform(3, 1.0, 0.0)


@case
def random_no_integer_in_between():
    cr.random.integers(3, 5, 5)


@case
def random_integers_outside_uint8():
    cr.random.integers(3, 0, 300, dtype=np.uint8)


@case
def random_integers_up_to_a_float():
    cr.random.integers(3, 0, 1.5)


@case
def random_floating_integers():
    cr.random.integers(3, 0, 5, dtype=np.float32)


@case
def random_order_of_fewer_than_none():
    cr.random.permutation(-1)


@case
def random_probability_above_one():
    cr.random.bernoulli(3, 1.5)


@case
def random_seed_below_zero():
    cr.random.seed(-1)


@case
def random_stream_too_large():
    cr.random.generator(0, 2**32)


@case
def random_generator_of_the_old_kind():
    cr.random.normal(3, generator=np.random.RandomState(0))


@case
def random_generator_is_a_seed():
    with cr.random.use(0):
        pass


@case
def random_state_of_another_kind():
    cr.random.set_state({"bit_generator": "MT19937"}, cr.random.generator(0))


@case
def random_draw_while_traced():
    with tracing():
        cr.random.current()
