"""Sums of products in Einstein's notation, made of diagonals, sums, products of matrices and elementwise products.

It has no rule of its own, so every order of derivative and every library comes for free.  A plan is made once for
given subscripts and shapes: axes are summed away as soon as nobody needs them, operands meet in pairs, cheapest first.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from chainrule.errors import ArgumentError, ShapeError, explain
from chainrule.ops.arguments import as_operand
from chainrule.ops.arranging import diagonal_of
from chainrule.ops.elementwise import multiply
from chainrule.ops.linalg import arranged, matmul_arrays
from chainrule.ops.reductions import reduce_sum
from chainrule.ops.views import astype, reshape_to
from chainrule.types import Shape

Labels = tuple[str, ...]


class Plan(NamedTuple):
    """What to do for given subscripts and shapes."""

    inputs: tuple[Labels, ...]
    output: Labels
    sizes: dict[str, int]
    pairs: tuple[tuple[int, int], ...]


def einsum(subscripts: str, *operands: Any) -> Any:
    """A sum of products: one letter for each axis, equal letters run together, letters not in the output are summed.

    `einsum("ij,jk->ik", x, y)`; without `->` the output has the letters that come once, in alphabetical order; `...`
    stands for axes that broadcast; a letter twice in one operand means its diagonal.  **Derivative** of any order, by
    the operations that it is made of.  **Raises** ArgumentError for the subscripts, ShapeError for lengths that differ.

    >>> import chainrule as cr
    >>> x = cr.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> cr.einsum("ii", x).item(), cr.einsum("ij->j", x).tolist(), cr.einsum("ij,kj->ik", x, x).tolist()
    (5.0, [4.0, 6.0], [[5.0, 11.0], [11.0, 25.0]])
    """
    if not isinstance(subscripts, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        fault = "the subscripts come first, as a string"
        raise ArgumentError(explain("einsum", fault, subscripts=subscripts, expected='such as "ij,jk->ik"'))
    arrays = [as_operand(operand) for operand in operands]
    plan = _plan(subscripts, tuple(tuple(array.shape) for array in arrays))
    terms = [_reduced(x, labels, plan) for x, labels in zip(arrays, _with_needs(plan), strict=True)]
    for i, j in plan.pairs:
        y, x = terms.pop(j), terms.pop(i)
        needed = set(plan.output).union(*(labels for _, labels in terms))
        terms.append(_product(x, y, needed, plan.sizes))
    out, labels = terms[0]
    out = _arranged_as(out, labels, plan.output)
    return _in_dtype(out, arrays)


def _in_dtype(out: Any, arrays: list[Any]) -> Any:
    """Sums of short integers are long ones, but a product of one dtype stays what it is."""
    dtype = arrays[0].dtype
    same = all(array.dtype == dtype for array in arrays)
    return astype(out, dtype) if same and out.dtype != dtype else out


# ------------------------------------------------------------------------------------------------------------ the plan
@lru_cache(maxsize=512)
def _plan(subscripts: str, shapes: tuple[Shape, ...]) -> Plan:
    inputs, output = _parsed(subscripts, shapes)
    sizes = _sizes(subscripts, inputs, shapes)
    for label in output:
        if label not in sizes:
            raise ArgumentError(_about(subscripts, shapes, f"the output label {label!r} is in no operand"))
    terms = [
        frozenset(label for label, n in zip(labels, shape, strict=True) if n == sizes[label])
        for labels, shape in zip(inputs, shapes, strict=True)
    ]
    return Plan(inputs, output, sizes, _order(terms, frozenset(output), sizes))


def _about(subscripts: str, shapes: tuple[Shape, ...], fault: str) -> str:
    named: dict[str, Any] = {f"operand {k}": shape for k, shape in enumerate(shapes)}
    return explain("einsum", fault, subscripts=subscripts, **named)


def _parsed(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of every operand and of the output; `...` becomes labels `-1`, `-2`, counted from its end."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    letters = text.replace("->", "").replace("...", "").replace(",", "")
    if not all(letter.isalpha() for letter in letters) or any(term.count("...") > 1 for term in [*terms, right]):
        fault = "subscripts are letters, commas, `...` once for each operand, and one `->`"
        raise ArgumentError(_about(subscripts, shapes, fault))
    if len(terms) != len(shapes):
        raise ArgumentError(_about(subscripts, shapes, f"{len(shapes)} operands for {len(terms)} terms"))
    inputs: list[Labels] = []
    widest = 0
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        dots = len(shape) - len(term.replace("...", ""))
        if dots < 0 or (dots > 0 and "..." not in term):
            fault = f"operand {k} has {len(shape)} axes, {term!r} names {len(term.replace('...', ''))}"
            raise ShapeError(_about(subscripts, shapes, fault))
        inputs.append(_labels(term, dots))
        widest = max(widest, dots)
    if not arrow:
        once = sorted(
            letter for letter, count in Counter(left.replace("...", "")).items() if count == 1 and letter != ","
        )
        right = "..." + "".join(once)
    elif widest and "..." not in right:
        raise ArgumentError(
            _about(subscripts, shapes, "the output has to hold the axes of `...`, which are not summed")
        )
    output = _labels(right, widest)
    if len(set(output)) < len(output):
        raise ArgumentError(_about(subscripts, shapes, "a label comes twice in the output"))
    return tuple(inputs), output


def _labels(term: str, dots: int) -> Labels:
    before, _, after = term.partition("...")
    gap = tuple(str(k) for k in range(-dots, 0)) if "..." in term else ()
    return (*before, *gap, *after)


def _sizes(subscripts: str, inputs: tuple[Labels, ...], shapes: tuple[Shape, ...]) -> dict[str, int]:
    """The length that every label stands for; length 1 broadcasts."""
    sizes: dict[str, int] = {}
    for k, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        for label, n in zip(labels, shape, strict=True):
            have = sizes.get(label, 1)
            if n not in (1, have) and have != 1:
                name = f"`...` (axis {label})" if label.startswith("-") else repr(label)
                raise ShapeError(_about(subscripts, shapes, f"label {name} has length {have}, but {n} in operand {k}"))
            sizes[label] = n if have == 1 else have
    return sizes


def _order(terms: list[frozenset[str]], output: frozenset[str], sizes: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """Which operands meet: again and again the pair whose product grows least, then the one with the least work."""
    pairs: list[tuple[int, int]] = []
    while len(terms) > 1:
        _, _, i, j = min((*_price(terms, i, j, output, sizes), i, j) for i, j in combinations(range(len(terms)), 2))
        pairs.append((i, j))
        merged = _kept(terms, i, j, output)
        terms = [term for k, term in enumerate(terms) if k not in (i, j)] + [merged]
    return tuple(pairs)


def _kept(terms: list[frozenset[str]], i: int, j: int, output: frozenset[str]) -> frozenset[str]:
    """The labels that the product of two operands must keep."""
    return (terms[i] | terms[j]) & output.union(*(term for k, term in enumerate(terms) if k not in (i, j)))


def _price(
    terms: list[frozenset[str]], i: int, j: int, output: frozenset[str], sizes: dict[str, int]
) -> tuple[int, int]:
    """By how much memory grows, and the number of multiplications."""

    def size(labels: frozenset[str]) -> int:
        return prod(sizes[label] for label in labels)

    return size(_kept(terms, i, j, output)) - size(terms[i]) - size(terms[j]), size(terms[i] | terms[j])


def _with_needs(plan: Plan) -> list[tuple[Labels, set[str]]]:
    """The labels of each operand, and those that the others or the output need."""
    return [
        (labels, set(plan.output).union(*(other for j, other in enumerate(plan.inputs) if j != k)))
        for k, labels in enumerate(plan.inputs)
    ]


# ------------------------------------------------------------------------------------------------------------ the work
def _reduced(x: Any, of: tuple[Labels, set[str]], plan: Plan) -> tuple[Any, Labels]:
    """One operand with each label once, without axes that only broadcast, summed over what nobody else needs."""
    labels, needed = of
    shape = x.shape
    kept = [k for k, label in enumerate(labels) if shape[k] == plan.sizes[label]]
    if len(kept) < len(labels):
        x, labels = reshape_to(x, tuple(shape[k] for k in kept)), tuple(labels[k] for k in kept)
    for label, count in Counter(labels).items():
        for _ in range(count - 1):
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = tuple(k for k in range(len(labels)) if k not in (first, second))
            x = diagonal_of(arranged(x, (*rest, first, second)), 0)
            labels = (*(labels[k] for k in rest), label)
    alone = tuple(k for k, label in enumerate(labels) if label not in needed)
    if alone:
        x, labels = reduce_sum(x, alone, False), tuple(label for label in labels if label in needed)
    return x, labels


def _product(
    a: tuple[Any, Labels], b: tuple[Any, Labels], needed: set[str], sizes: dict[str, int]
) -> tuple[Any, Labels]:
    """Two operands as one: what both have and nobody else needs is summed by a product of matrices."""
    (x, of_x), (y, of_y) = a, b
    shared = [label for label in of_x if label in of_y]
    batch = tuple(label for label in shared if label in needed)
    inner = tuple(label for label in shared if label not in needed)
    left = tuple(label for label in of_x if label not in of_y)
    right = tuple(label for label in of_y if label not in of_x)
    if not inner:
        x = _spread(_arranged_as(x, of_x, (*batch, *left)), (*batch, *left), (*batch, *left, *right), sizes)
        y = _spread(_arranged_as(y, of_y, (*batch, *right)), (*batch, *right), (*batch, *left, *right), sizes)
        return multiply(x, y), (*batch, *left, *right)
    lengths = [tuple(sizes[label] for label in labels) for labels in (batch, left, inner, right)]
    m, k, n = map(prod, lengths[1:])
    x = reshape_to(_arranged_as(x, of_x, (*batch, *left, *inner)), (*lengths[0], m, k))
    y = reshape_to(_arranged_as(y, of_y, (*batch, *inner, *right)), (*lengths[0], k, n))
    return reshape_to(matmul_arrays(x, y), (*lengths[0], *lengths[1], *lengths[3])), (*batch, *left, *right)


def _arranged_as(x: Any, labels: Labels, wanted: Labels) -> Any:
    return arranged(x, tuple(labels.index(label) for label in wanted))


def _spread(x: Any, labels: Labels, wanted: Labels, sizes: dict[str, int]) -> Any:
    """With axes of length 1 for the labels that x has not."""
    return x if labels == wanted else reshape_to(x, tuple(sizes[k] if k in labels else 1 for k in wanted))
