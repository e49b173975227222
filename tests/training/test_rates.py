"""The rate of a run beside its closed form."""

import math

import numpy as np
import pytest

import chainrule as cr
from chainrule.training.rates import falling


@pytest.mark.parametrize(("warm_up", "last_step"), [(0, 50), (1, 2), (10, 50), (100, 2000)])
@pytest.mark.parametrize("last", [0.0, 1e-4])
def test_the_rate_is_that_of_the_formula(warm_up, last_step, last):
    rate = 1e-3
    optimizer = cr.optim.SGD([cr.tensor(1.0, requires_grad=True)], lr=rate)
    schedule = falling(optimizer, rate, last_step, warm_up, last)
    for k in range(last_step + 20):
        if k < warm_up:
            expected = rate * (k + 1) / (warm_up + 1)
        else:
            t = min(1.0, (k - warm_up) / (last_step - warm_up))
            expected = last + (rate - last) * 0.5 * (1 + math.cos(math.pi * t))
        np.testing.assert_allclose(optimizer.param_groups[0]["lr"], expected, rtol=1e-10, atol=1e-16)
        schedule.step()


def test_all_groups_follow():
    tensors = [cr.tensor(1.0, requires_grad=True) for _ in range(2)]
    optimizer = cr.optim.AdamW([{"params": [tensor], "weight_decay": k} for k, tensor in enumerate(tensors)], lr=0.1)
    schedule = falling(optimizer, 0.1, 10, 2, 0.01)
    for _ in range(12):
        assert optimizer.param_groups[0]["lr"] == optimizer.param_groups[1]["lr"]
        schedule.step()
