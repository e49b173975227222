"""What merely has a state: stand-ins for models, optimisers and loaders; and equality that looks at types and bits."""

import struct

import numpy as np

import chainrule as cr


class Thing:
    """Holds any state, and takes up any that its `accepts` has nothing against."""

    def __init__(self, state, accepts=lambda state: None):
        self.state = state
        self.accepts = accepts
        self.loaded = 0

    def state_dict(self):
        return self.state  # not a copy: nothing in the contract of PyTorch's optimisers says that it is one

    def load_state_dict(self, state):
        self.loaded += 1
        self.accepts(state)
        self.state = state


class Adam(Thing):
    """State as PyTorch's optimisers have it: integer keys, a tuple among numbers, counts without axes."""

    def __init__(self, parameters, seed=0):
        rng = np.random.default_rng(seed)
        state = {
            number: {"step": np.array(3.0 + number), "exp_avg": rng.normal(size=p.shape).astype(p.dtype)}
            for number, p in enumerate(parameters)
        }
        group = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False, "params": list(state)}
        super().__init__({"state": state, "param_groups": [group]})


def exactly(value):
    """A description in which two values differ if they differ in a type, an order, a key or a bit."""
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic):
        return kind, value.dtype, value.shape, np.asarray(value).tobytes()
    if isinstance(value, cr.Tensor):
        return kind, value.requires_grad, exactly(np.asarray(value.data))
    if isinstance(value, np.random.Generator):
        return kind, exactly(value.bit_generator.state)
    if isinstance(value, dict):
        return kind, [(exactly(key), exactly(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return kind, [exactly(entry) for entry in value]
    return kind, struct.pack(">d", value) if isinstance(value, float) else value
