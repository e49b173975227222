"""Attention beside PyTorch's, with random options; rows that see nothing; reading on from a cache."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import LostGraphError
from tests.nn import twins
from tests.nn.beside_torch import compare
from tests.nn.twins import Twin
from tests.oracle.peers import peer


# ---------------------------------------------------------------- the function
def random_case(seed):
    """Arrays, keywords, and the mask as PyTorch wants it: every query sees something, of which PyTorch is sure."""
    rng = np.random.default_rng(seed)
    places, seen, features = (int(n) for n in rng.integers(1, 6, 3))
    front = [(), (2,), (2, 3), (1, 3)][rng.integers(4)]
    behind = [front, (*front[:-1], 1) if front else ()][rng.integers(2)]
    arrays = [
        rng.normal(size=(*front, places, features)),
        rng.normal(size=(*behind, seen, features)),
        rng.normal(size=(*behind, seen, int(rng.integers(1, 4)))),
    ]
    how = {"scale": [None, 0.7, 30.0][rng.integers(3)]}
    kind = rng.integers(4)
    if kind == 1:
        how["is_causal"] = True
    elif kind == 2:
        mask = rng.random((places, seen)) < 0.6
        mask[:, 0] = True
        how["attn_mask"] = mask
    elif kind == 3:
        how["attn_mask"] = rng.normal(size=(*front[:1], *(1,) * (len(front) - 1), places, seen))
    return arrays, how


@pytest.mark.parametrize("seed", range(60))
def test_beside_pytorch(seed):
    torch = peer("torch")
    arrays, how = random_case(seed)
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in how.items()}
    compare(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, **how),
        lambda q, k, v: math_attention(torch, q, k, v, **theirs),
        arrays,
        seed,
    )


def math_attention(torch, q, k, v, attn_mask=None, is_causal=False, scale=None):
    """PyTorch's own documentation of its function; the fused one has no second derivative and does not broadcast."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.mT * scale
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, -1) @ v


@pytest.mark.parametrize("how", [{}, {"is_causal": True}, {"scale": 0.1}, {"attn_mask": "bool"}, {"attn_mask": "add"}])
def test_beside_pytorchs_fused_one(how):
    torch, rng = peer("torch"), np.random.default_rng(1)
    how = dict(how)
    if how.get("attn_mask") == "bool":
        how["attn_mask"] = np.tri(4, 6, 2, dtype=bool)
    elif "attn_mask" in how:
        how["attn_mask"] = rng.normal(size=(4, 6))
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in how.items()}
    compare(
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, **how),
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, **theirs),
        [rng.normal(size=(2, 3, n, 5)) for n in (4, 6, 6)],
        second=False,
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("causal", [True, False])
def test_scores_of_any_size(causal, size, dtype):
    """Large ones overflow as they stand, far apart ones underflow, and what is hidden may be the largest by far."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(2, 8, 4)) for _ in range(3))
    q = q * size
    k[:, 5] *= 20.0  # seen by the last three alone
    scores = q @ np.swapaxes(k, 1, 2) / 2
    scores = np.where(np.tri(8, dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ v
    given = nn.scaled_dot_product_attention(*(a.astype(dtype) for a in (q, k, v)), is_causal=causal)
    assert given.dtype == dtype
    tolerance = (1e-12 if dtype == np.float64 else 3e-6) * max(size, 10.0)
    np.testing.assert_allclose(given, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mask", ["bool", "added"])
def test_a_query_that_sees_nothing_gives_zeros_and_zero_gradients(mask):
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(3, 4)) for _ in range(3)]
    seen = np.array([[True, False, True], [False, False, False], [True, True, True]])
    attn_mask = seen if mask == "bool" else np.where(seen, 0.0, -np.inf)
    xs = [cr.tensor(a, requires_grad=True) for a in arrays]
    y = nn.scaled_dot_product_attention(*xs, attn_mask)
    assert y[1].tolist() == [0.0] * 4
    gs = cr.gradients((y * y).sum(), xs, create_graph=True)
    assert gs[0].data[1].tolist() == [0.0] * 4
    again = cr.gradients(sum((g * g).sum() for g in gs), xs)
    assert np.isfinite(np.concatenate([*(g.data for g in gs), *again])).all()
    others = nn.scaled_dot_product_attention(arrays[0][[0, 2]], *arrays[1:], attn_mask[[0, 2]])
    np.testing.assert_allclose(y.data[[0, 2]], others, rtol=1e-14)


def test_numbers_that_are_added_get_a_gradient():
    torch, rng = peer("torch"), np.random.default_rng(4)
    compare(
        nn.scaled_dot_product_attention,
        lambda *of: math_attention(torch, *of),
        [*(rng.normal(size=(2, 3, 4)) for _ in range(3)), rng.normal(size=(3, 3))],
    )


def test_float16_and_numbers_to_add_of_another_dtype():
    x = np.random.default_rng(5).normal(size=(3, 4)).astype(np.float16)
    assert nn.scaled_dot_product_attention(x, x, x).dtype == np.float16
    single = x.astype(np.float32)
    assert nn.scaled_dot_product_attention(single, single, single, np.zeros((3, 3))).dtype == np.float32


def test_dropout():
    rng = np.random.default_rng(6)
    q, k = rng.normal(size=(2, 4)), rng.normal(size=(3, 4))
    v = np.eye(3)  # the output is the weights
    given = [
        nn.scaled_dot_product_attention(q, k, v, dropout_p=0.25, generator=np.random.default_rng(s))
        for s in range(4000)
    ]
    weights = nn.scaled_dot_product_attention(q, k, v)
    kept = np.asarray(given) != 0
    np.testing.assert_allclose(np.asarray(given)[kept], np.broadcast_to(weights / 0.75, kept.shape)[kept], rtol=1e-12)
    np.testing.assert_allclose(kept.mean(axis=0), 0.75, atol=0.03)
    again = nn.scaled_dot_product_attention(q, k, v, dropout_p=0.25, generator=np.random.default_rng(7))
    np.testing.assert_array_equal(again, given[7])
    assert not nn.scaled_dot_product_attention(q, k, v, dropout_p=1.0).any()


# ---------------------------------------------------------------- the layers
def attention(*args, **options):
    """Ours and theirs."""
    return (
        lambda **how: nn.MultiheadAttention(*args, **options, **how),
        lambda t: t.nn.MultiheadAttention(*args, **options),
    )


def same(layer, x, **keywords):
    return layer(x, x, x, **keywords)


def same_dtype(layer, x, attn_mask):
    """PyTorch adds only numbers of the dtype of the scores."""
    return layer(x, x, x, attn_mask=attn_mask.to(x.dtype))


def shared(layer, x, y, **keywords):
    return layer(x, y, y, **keywords)


PADDING = np.array([[False, False, True], [False, True, True]])
HIDDEN = np.triu(np.ones((3, 3), bool), 1)
ADDED = np.random.default_rng(0).normal(size=(3, 3))
PER_HEAD = np.random.default_rng(0).random((8, 3, 3)) < 0.3
PER_HEAD[..., 0] = False
SHAPE = (2, 3, 8)


def causal(layer, x, **keywords):
    """PyTorch wants the mask beside the hint."""
    extra = {} if isinstance(layer, nn.Module) else {"attn_mask": peer("torch").tensor(HIDDEN)}
    return layer(x, x, x, is_causal=True, **extra, **keywords)


def by_norm_first(layer, x, **keywords):
    if isinstance(layer, nn.Module):
        return layer(x, **keywords)
    return layer(x, **{"src_mask" if k == "attn_mask" else "src_key_padding_mask": v for k, v in keywords.items()})


def block(causal, bias=True, inner=None):
    return (
        lambda **how: nn.TransformerBlock(8, 2, inner, bias=bias, causal=causal, **how),
        lambda t: t.nn.TransformerEncoderLayer(8, 2, inner or 32, 0.0, "gelu", 1e-5, True, norm_first=True, bias=bias),
    )


def causal_block(layer, x):
    return layer(x) if isinstance(layer, nn.Module) else layer(x, peer("torch").tensor(HIDDEN))


test_twins = twins.tests(
    Twin("self", *attention(8, 2, batch_first=True), [SHAPE], own=same, their=same),
    Twin("places first", *attention(8, 2), [(3, 2, 8)], own=same, their=same),
    Twin("without bias", *attention(8, 4, bias=False, batch_first=True), [SHAPE], own=same, their=same),
    Twin("three arrays", *attention(8, 2, batch_first=True), [(2, 4, 8), SHAPE, SHAPE]),
    Twin("keys are values", *attention(8, 2, batch_first=True), [(2, 4, 8), SHAPE], own=shared, their=shared),
    Twin("one example", *attention(8, 2), [(3, 8)], own=same, their=same),
    Twin("one example, batch first", *attention(8, 2, batch_first=True), [(3, 8)], own=same, their=same),
    Twin("padding", *attention(8, 2, batch_first=True), [SHAPE], {"key_padding_mask": PADDING}, own=same, their=same),
    Twin("hidden", *attention(8, 2, batch_first=True), [SHAPE], {"attn_mask": HIDDEN}, own=same, their=same),
    Twin("added", *attention(8, 2), [(3, 2, 8)], {"attn_mask": ADDED}, own=same, their=same_dtype),
    Twin("per head", *attention(8, 4, batch_first=True), [SHAPE], {"attn_mask": PER_HEAD}, own=same, their=same),
    Twin("both masks", *attention(8, 2, batch_first=True), [SHAPE], {"attn_mask": HIDDEN, "key_padding_mask": PADDING},
         own=same, their=same),
    Twin("weights of heads", *attention(8, 2, batch_first=True), [SHAPE], {"average_attn_weights": False}, own=same, their=same),
    Twin("causal", *attention(8, 2, batch_first=True), [SHAPE], {"need_weights": False}, own=causal, their=causal),
    Twin("block", *block(False), [SHAPE], own=by_norm_first, their=by_norm_first),
    Twin("block without bias", *block(False, False, 12), [SHAPE], own=by_norm_first, their=by_norm_first),
    Twin("block with padding", *block(False), [SHAPE], {"key_padding_mask": PADDING}, own=by_norm_first, their=by_norm_first),
    Twin("block with mask", *block(False), [SHAPE], {"attn_mask": HIDDEN}, own=by_norm_first, their=by_norm_first),
    Twin("causal block", *block(True), [SHAPE], own=causal_block, their=causal_block),
    Twin("LayerNorm", lambda **how: nn.LayerNorm((3, 4), 1e-3, **how), lambda t: t.nn.LayerNorm((3, 4), 1e-3), [(5, 3, 4)]),
    Twin("LayerNorm, scale only", lambda **how: nn.LayerNorm(4, bias=False, **how), lambda t: t.nn.LayerNorm(4, bias=False), [(5, 4)]),
    Twin("LayerNorm, plain", lambda **how: nn.LayerNorm(4, 1e-5, False, **how), lambda t: t.nn.LayerNorm(4, 1e-5, False), [(5, 4)]),
    Twin("RMSNorm", lambda **how: nn.RMSNorm(4, **how), lambda t: t.nn.RMSNorm(4), [(5, 4)]),
)  # fmt: skip


def test_initial_values_are_pytorchs():
    made = nn.MultiheadAttention(64, 4, generator=np.random.default_rng(0))
    bound = np.sqrt(6 / (64 + 3 * 64))
    assert np.abs(made.in_proj_weight.data).max() == pytest.approx(bound, rel=0.01)
    assert np.abs(made.out_proj.weight.data).max() == pytest.approx(1 / 8, rel=0.01)
    assert not made.in_proj_bias.data.any()
    assert not made.out_proj.bias.data.any()


@pytest.mark.parametrize("steps", [[1] * 7, [3, 1, 1, 2], [7], [2, 5]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_reading_on_from_a_cache_is_reading_at_once(steps, dtype):
    blocks = [nn.TransformerBlock(8, 2, dtype=dtype, generator=np.random.default_rng(k)) for k in range(2)]
    x = cr.tensor(np.random.default_rng(9).normal(size=(3, 7, 8)).astype(dtype))
    caches = [nn.KeyValueCache() for _ in blocks]
    parts, start = [], 0
    with cr.no_grad():
        for n in steps:
            part = x[:, start : start + n]
            for block, cache in zip(blocks, caches, strict=True):
                part = block(part, cache=cache)
            parts.append(part)
            start += n
            assert caches[1].length == start
        whole = blocks[1](blocks[0](x))
    np.testing.assert_allclose(cr.concat(parts, axis=1).data, whole.data, atol=1e-13 if dtype == np.float64 else 3e-6)


def test_a_cache_never_loses_a_graph():
    block = nn.TransformerBlock(8, 2, generator=np.random.default_rng(0))
    with pytest.raises(LostGraphError):
        block(cr.ones((1, 2, 8)), cache=nn.KeyValueCache())


def test_a_block_drops_while_it_trains():
    block = nn.TransformerBlock(8, 2, dropout=0.5, generator=np.random.default_rng(0))
    x = cr.random.normal((1, 4, 8), generator=np.random.default_rng(1))
    once, twice, other = (block(x, generator=np.random.default_rng(s)).data for s in (2, 2, 3))
    np.testing.assert_array_equal(once, twice)
    assert (once != other).any()
    block.eval()
    np.testing.assert_array_equal(block(x).data, block(x, generator=np.random.default_rng(3)).data)


def test_memory_of_a_causal_layer_is_not_read_ahead():
    """The output at a place does not hang on later ones."""
    block = nn.TransformerBlock(8, 2, generator=np.random.default_rng(0))
    g = cr.grad(lambda x: (block(x)[0, 2] ** 2).sum())(np.random.default_rng(1).normal(size=(1, 5, 8)))
    assert (g[0, :3] != 0).all()
    assert not g[0, 3:].any()
