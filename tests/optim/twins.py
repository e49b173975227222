"""An optimiser of ours beside PyTorch's of the same name: same parameters, same gradients, step by step."""

import numpy as np

import chainrule as cr
from tests.oracle.peers import peer

torch = peer("torch")
torch.set_num_threads(1)

SHAPES = [(3, 4), (4,), (), (130, 150), (5, 2), (0, 3)]  # small ones together, a large one in tiles, a number, nothing


class Twins:
    """The same parameters twice, each with an optimiser; `groups` says which parameters have options of their own."""

    def __init__(self, name, options, shapes=SHAPES, dtype=np.float64, groups=None, seed=0):
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        values = [np.asarray(self.rng.normal(size=shape), dtype) for shape in shapes]
        self.ours = [cr.tensor(value, requires_grad=True) for value in values]
        self.theirs = [torch.tensor(value, requires_grad=True) for value in values]
        self.opt = getattr(cr.optim, name)(grouped(self.ours, groups), **options)
        self.peer = getattr(torch.optim, name)(grouped(self.theirs, groups), **options)

    def set_gradients(self, without=()):
        """New gradients for all parameters but those numbers: noise, and a pull to zero that makes the loss matter."""
        for k, (p, q) in enumerate(zip(self.ours, self.theirs, strict=True)):
            g = self.rng.normal(size=p.shape) + q.detach().numpy()
            g = np.asarray(g, self.dtype)
            p.grad = None if k in without else g
            q.grad = None if k in without else torch.tensor(g)

    def step(self, without=()):
        self.set_gradients(without)
        self.opt.step()
        self.peer.step()

    def distance(self):
        """The largest difference of two entries, relative to the largest entry."""
        pairs = [(p.data, q.detach().numpy()) for p, q in zip(self.ours, self.theirs, strict=True) if p.size]
        for a, b in pairs:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            assert np.isfinite(a).all()
        return max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs)


def grouped(params, groups):
    if groups is None:
        return params
    return [{"params": [params[k] for k in members], **options} for members, options in groups]
