"""A function of ours beside PyTorch's on the same arrays: value, gradient and second order, to 1e-12 in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import chainrule as cr
from tests.oracle.peers import peer

Function = Callable[..., Any]


def agree(ours: Any, theirs: Any, what: str, rtol: float = 1e-12) -> None:
    theirs = theirs.detach().numpy() if hasattr(theirs, "detach") else np.asarray(theirs)
    ours = np.asarray(ours.detach() if isinstance(ours, cr.Tensor) else ours)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), what
    scale = np.abs(theirs).max(initial=1.0)
    np.testing.assert_allclose(ours, theirs, rtol, rtol * scale, err_msg=what)


def compare(ours: Function, theirs: Function, arrays: Sequence[Any], seed: int = 0, second: bool = True) -> None:
    """`ours` and `theirs` take the arrays as tensors of their library and give one tensor."""
    torch = peer("torch")
    rng = np.random.default_rng(seed)
    xs = [cr.tensor(a, requires_grad=True) for a in arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    y, z = ours(*xs), theirs(*ts)
    agree(y, z, "value")
    ct = rng.normal(size=y.shape)
    gs = cr.gradients(y, xs, cotangent=cr.tensor(ct), create_graph=True)
    hs = torch.autograd.grad(z, ts, torch.tensor(ct), create_graph=True, allow_unused=True)
    hs = [torch.zeros_like(t) if h is None else h for t, h in zip(ts, hs, strict=True)]
    for k, (g, h) in enumerate(zip(gs, hs, strict=True)):
        agree(g, h, f"gradient of operand {k}")
    for k, x in enumerate(xs):  # and once more without recording, where rules take their short ways
        x.grad = None
        ours(*xs).backward(ct)
        agree(x.grad, hs[k], f"gradient of operand {k}, not recorded")
        for other in xs:
            other.grad = None
    if second and any(g.requires_grad for g in gs) and any(h.requires_grad for h in hs):
        vs = [rng.normal(size=a.shape) for a in arrays]
        inner = sum((g * v).sum() for g, v in zip(gs, vs, strict=True))
        other = sum((h * torch.tensor(v)).sum() for h, v in zip(hs, vs, strict=True) if h.requires_grad)
        theirs_2 = torch.autograd.grad(other, ts, allow_unused=True)
        for k, (g, h) in enumerate(zip(cr.gradients(inner, xs), theirs_2, strict=True)):
            agree(g, torch.zeros_like(ts[k]) if h is None else h, f"second order of operand {k}", 1e-11)
