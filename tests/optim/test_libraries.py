"""Parameters of another array library are trained by that library."""

import numpy as np
import pytest

import chainrule as cr

xp = pytest.importorskip("array_api_strict")

OPTIMISERS = [
    lambda ps: cr.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    lambda ps: cr.optim.Adam(ps, lr=0.1, amsgrad=True),
    lambda ps: cr.optim.AdamW(ps, lr=0.1),
    lambda ps: cr.optim.RMSprop(ps, lr=0.1, centered=True),
    lambda ps: cr.optim.Adagrad(ps, lr=0.1),
    lambda ps: cr.optim.Lion(ps, lr=0.1, weight_decay=0.1),
    lambda ps: cr.optim.Muon(ps, lr=0.1),
]


@pytest.mark.parametrize("make", OPTIMISERS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_step_is_numpys(make, dtype):
    value, target = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(dtype)
    results = []
    for library in (np, xp):
        w = cr.tensor(library.asarray(value), requires_grad=True)
        opt = make([w])
        averages = cr.optim.ExponentialMovingAverage([w], 0.5)
        for _ in range(5):
            opt.zero_grad()
            ((w - library.asarray(target)) ** 2).sum().backward()
            cr.optim.clip_grad_norm_([w], 3.0)
            cr.optim.clip_grad_value_([w], 1.0)
            opt.step()
            averages.update()
        assert type(w.data) is type(library.asarray(value))
        with averages.average_parameters():
            results.append((np.asarray(w.data), {n: np.asarray(a) for n, a in opt.state_dict()["state"][0].items()}))
    (ours, our_states), (theirs, their_states) = results
    assert theirs.dtype == dtype
    tolerance = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    for name, array in our_states.items():
        np.testing.assert_allclose(array, their_states[name], rtol=tolerance, atol=tolerance)
