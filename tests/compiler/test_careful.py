"""A zero cotangent stays zero in compiled programs: of every record, at special points, behind `where`, in every order."""

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.calls import raw, wrap
from chainrule.core.primitive import PRIMITIVES
from tests.cases.test_where import BAD
from tests.compiler.traced import program_of, run
from tests.laws import first_order
from tests.laws.derivatives import call, cotangents, differentiable, leaf, recorded, sweep
from tests.laws.examples import Example, examples, generator, is_elementwise, is_real, records
from tests.laws.first_order import PRODUCTS, expect_zeros, specials, spoiled

RECORDS = {name: record for name, record in records().items() if any(record.rules)}


def compiled_pull(record: Any, example: Example, cts: Any) -> Any:
    """What `tests.laws.derivatives.pull` gives, compiled."""

    def gradients(*given: Any) -> list[Any]:
        arrays, weights = given[: len(example.arrays)], list(given[len(example.arrays) :])
        wanted = differentiable(record, Example(arrays, example.parameters))
        operands = [leaf(a) if k in wanted else wrap(a, None) for k, a in enumerate(arrays)]
        return sweep([operands[k] for k in wanted], call(record, operands, example.parameters), weights)

    return run(gradients, *example.arrays, *cts)


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if is_elementwise(record)])
def test_zero_stays_zero(name, monkeypatch):
    monkeypatch.setattr(first_order, "pull", compiled_pull)
    with np.errstate(all="ignore"):
        first_order.zero_stays_zero(RECORDS[name])


@pytest.mark.parametrize("name", RECORDS)
def test_where_hides(name):
    record = RECORDS[name]
    where = PRIMITIVES["where"].call
    for plain in examples(record):
        rng = generator(record, "where")
        tried = [spoiled(plain, rng) for _ in range(2)]
        tried += specials(plain, (np.nan, -0.5, 3.5)) if is_elementwise(record) else []
        for example in tried:
            try:
                _, outs = recorded(record, example)
            except Exception:  # noqa: BLE001 - an operation may refuse infinities: tests/laws look at how
                continue
            cts = [ct for ct in cotangents(rng, [out.data for out in outs]) if ct is not None]

            def gradients(*given: Any, example: Example = example) -> list[Any]:
                arrays, weights = given[: len(example.arrays)], iter(given[len(example.arrays) :])
                wanted = differentiable(record, Example(arrays, example.parameters))
                operands = [leaf(a) if k in wanted else wrap(a, None) for k, a in enumerate(arrays)]
                outs = call(record, operands, example.parameters)
                hidden = [where(np.zeros(o.shape, bool), o, 0.0) if is_real(o) else o for o in outs]
                leaves = [operands[k] for k in wanted]
                seeds = [wrap(next(weights), None) if is_real(o) else None for o in outs]
                first = sweep(leaves, hidden, seeds, graph=True)
                again = [g for g in first if g is not None and g.node is not None]
                if record.name in PRODUCTS:
                    return first
                return first + sweep(leaves, again, [np.ones(g.shape) for g in again])

            expect_zeros(run(gradients, *example.arrays, *cts), f"{name} behind where")


@pytest.mark.parametrize("name", BAD)
def test_functions_behind_where(name):
    f, at = BAD[name]
    x = np.array([at, 1.5, at, 0.7])

    def hidden(t: Any) -> Any:
        return cr.where(t == at, 2.0 * t, f(t) if name != "acosh" else f(t + 1.0)).sum()

    for derivative in (cr.grad(hidden), cr.grad(lambda t: cr.grad(hidden)(t).sum())):
        found = run(lambda a, d=derivative: [d(a)], x)[0]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, raw(derivative(x)), rtol=1e-12)
            assert np.all(np.isfinite(found[[0, 2]]))
    ts = np.ones(4)
    found = run(lambda a, t: [cr.jvp(hidden, (a,), (t,))[1]], x, ts)[0]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, raw(cr.jvp(hidden, (x,), (ts,))[1]), rtol=1e-12)


def test_only_what_walks_need_is_looked_at():
    def without_a_walk(x: Any, y: Any) -> Any:
        return [cr.where(cr.Tensor(x) > 0.0, cr.log(cr.Tensor(x)), y)]

    def with_one(x: Any, y: Any) -> Any:
        return [cr.grad(lambda a: cr.where(a > 0.0, cr.log(a), 0.0).sum())(x) * y]

    x, y = np.array([2.0, -1.0]), np.ones(2)
    assert program_of(without_a_walk, [x, y])[0][3:] == ((), ())
    program, _, _ = program_of(with_one, [x, y])
    assert (program.watched, len(program.flagged)) == ((0,), 1)
    assert program_of(with_one, [x, y], careful=True)[0][3:] == ((), ())


def test_a_program_that_is_refused_has_written_nothing():
    def step(x: Any) -> Any:
        g = cr.grad(lambda a: cr.where(a > 0.0, cr.log(a) / 2.0, 0.0).sum())(x)
        x -= g
        return []

    for start, expected in (([2.0, -1.0], [1.75, -1.0]), ([2.0, np.nan], [1.75, np.nan])):
        x = np.array(start)
        assert run(step, x, careful=None, twice=False) == []
        np.testing.assert_array_equal(x, expected)
