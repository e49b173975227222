"""A layer of ours beside PyTorch's: the same names, shapes and order, the same outputs and gradients, through a file.

To add a layer, a line in the test file of its part:

    test_twins = twins.tests(
        Twin("Linear", lambda **how: nn.Linear(5, 3, **how), lambda t: t.nn.Linear(5, 3), inputs=[(4, 5)]),
    )

A Twin makes ours from `dtype` and `generator` and theirs from the module `torch`, and lists the inputs: a shape (normal numbers
are drawn, and their gradients compared), or an array (integers, masks) that is passed as it is.  `keywords` go to both calls, arrays
among them as tensors of each; `modes` says in which of "train" and "eval" they are compared; `own` and `their` call them where the
calls differ, as `lambda layer, *inputs: ...`.  Results may be tensors, None, or tuples and lists of these.

Our parameters are moved away from where they start, so that a scale of ones shows; the state goes through a file of `cr.io` into
`load_state_dict(strict=True)`; what is compared then are results, gradients of parameters and inputs under random cotangents, and
the buffers afterwards.  Where it differs, `tolerance` of the largest entry: 1e-12 in float64, 1e-5 in float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from tests.oracle.peers import peer

DTYPES = {"float64": 1e-12, "float32": 1e-5}


def call(layer: Any, *inputs: Any, **keywords: Any) -> Any:
    return layer(*inputs, **keywords)


@dataclass
class Twin:
    name: str
    ours: Callable[..., Any]
    theirs: Callable[[Any], Any]
    inputs: Sequence[Any]
    keywords: dict[str, Any] = field(default_factory=dict)
    modes: Sequence[str] = ("train", "eval")
    own: Callable[..., Any] = call
    their: Callable[..., Any] = call

    def __str__(self) -> str:
        return self.name


def tests(*listed: Twin) -> Callable[..., None]:
    """The test that compares these."""

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("twin", listed, ids=str)
    def test(twin: Twin, dtype: str, tmp_path: Path):
        for mode in twin.modes:
            compare(twin, np.dtype(dtype), mode, tmp_path / f"{mode}.safetensors", DTYPES[dtype])

    return test


def compare(twin: Twin, dtype: Any, mode: str, path: Path, tolerance: float) -> None:
    torch = peer("torch")
    rng = np.random.default_rng(7)
    ours = twin.ours(dtype=dtype, generator=np.random.default_rng(1))
    theirs = twin.theirs(torch).to(getattr(torch, dtype.name))
    move_away(ours, rng)
    pass_state(torch, ours, theirs, path)
    for layer in (ours, theirs):
        layer.train(mode == "train")
    arrays = [rng.normal(size=x).astype(dtype) if isinstance(x, tuple) else np.asarray(x) for x in twin.inputs]
    own_inputs = [cr.tensor(a, requires_grad=True) if is_floating(a) else a for a in arrays]
    their_inputs = [torch.tensor(a, requires_grad=is_floating(a)) for a in arrays]
    their_keywords = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in twin.keywords.items()}
    own_results = leaves(twin.own(ours, *own_inputs, **twin.keywords))
    their_results = leaves(twin.their(theirs, *their_inputs, **their_keywords))
    assert len(own_results) == len(their_results)
    pairs = [(own, their) for own, their in zip(own_results, their_results, strict=True) if their is not None]
    for k, (own, their) in enumerate(pairs):
        agree(f"result {k}", np.asarray(own.detach()), their, tolerance)
    cotangents = [rng.normal(size=own.shape).astype(dtype) for own, _ in pairs]
    differentiable = [(o, t, ct) for (o, t), ct in zip(pairs, cotangents, strict=True) if t.requires_grad]
    assert all(own.requires_grad for own, _, _ in differentiable)
    sum((own * ct).sum() for own, _, ct in differentiable).backward()
    sum((their * torch.tensor(ct)).sum() for _, their, ct in differentiable).backward()
    for k, (own, their) in enumerate(zip(own_inputs, their_inputs, strict=True)):
        if their.requires_grad:
            agree_gradient(f"gradient of input {k}", own.grad, their.grad, tolerance)
    theirs_by_name = dict(theirs.named_parameters())
    for name, own in ours.named_parameters():
        agree_gradient(f"gradient of {name}", own.grad, theirs_by_name[name].grad, tolerance)
    for (name, own), (_, their) in zip(ours.state_dict().items(), theirs.state_dict().items(), strict=True):
        agree(f"{name} afterwards", own, their, tolerance)


def move_away(layer: Any, rng: np.random.Generator) -> None:
    """Parameters and floating buffers a little further up: ones and zeros hide what is mixed up."""
    state = layer.state_dict()
    layer.load_state_dict({k: v + rng.uniform(0.0, 0.5, v.shape) if is_floating(v) else v for k, v in state.items()})


def pass_state(torch: Any, ours: Any, theirs: Any, path: Path) -> None:
    """Our state through a file into the twin, which has the same names, shapes, dtypes and order."""
    from safetensors.torch import load_file

    own, their = ours.state_dict(), theirs.state_dict()
    assert list(own) == list(their)
    for name, value in their.items():
        assert (own[name].shape, str(own[name].dtype)) == (tuple(value.shape), str(value.dtype).removeprefix("torch."))
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in ours.named_buffers()] == [name for name, _ in theirs.named_buffers()]
    cr.io.save(path, ours if own else {})
    theirs.load_state_dict(load_file(path), strict=True)


def leaves(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [result]


def is_floating(array: Any) -> bool:
    return array.dtype.kind == "f"


def agree(what: str, own: Any, their: Any, tolerance: float) -> None:
    expected = their.detach().numpy()
    own = np.asarray(own)
    assert own.dtype == expected.dtype, what
    scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))) if expected.size else 1.0
    np.testing.assert_allclose(own, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def agree_gradient(what: str, own: Any, their: Any, tolerance: float) -> None:
    """No gradient, as where a parameter was not used, is none on both sides."""
    assert (own is None) == (their is None), what
    if own is not None:
        agree(what, own, their, tolerance)
