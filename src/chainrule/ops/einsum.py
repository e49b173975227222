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
from chainrule.ops.linalg import matmul_arrays
from chainrule.ops.reductions import reduce_sum
from chainrule.ops.views import astype, permute, reshape_to
from chainrule.types import Shape

Labels = tuple[str, ...]
Steps = list[tuple[Any, ...]]
"""Operations on one array, each with its parameters."""


class Meeting(NamedTuple):
    """Operands number `left` and `right` become one, which goes to the end of the list."""

    left: int
    right: int
    prepare_left: Steps
    prepare_right: Steps
    operation: Any
    finish: Steps


class Plan(NamedTuple):
    """What to do for given subscripts and shapes."""

    alone: list[Steps]
    meetings: list[Meeting]
    finish: Steps


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
    terms = [_done(x, steps) for x, steps in zip(arrays, plan.alone, strict=True)]
    for meeting in plan.meetings:
        y, x = terms.pop(meeting.right), terms.pop(meeting.left)
        both = meeting.operation(_done(x, meeting.prepare_left), _done(y, meeting.prepare_right))
        terms.append(_done(both, meeting.finish))
    out = _done(terms[0], plan.finish)
    dtype = arrays[0].dtype  # sums of short integers are long ones, but what is of one dtype stays so
    return astype(out, dtype) if out.dtype != dtype and all(array.dtype == dtype for array in arrays) else out


def _done(x: Any, steps: Steps) -> Any:
    for operation, *parameters in steps:
        x = operation(x, *parameters)
    return x


# ------------------------------------------------------------------------------------------------------------ the plan
class _Term:
    """An operand while the plan is made: the labels of its axes, their lengths, and the steps so far."""

    def __init__(self, labels: Labels, shape: Shape) -> None:
        self.labels, self.shape = labels, shape
        self.steps: Steps = []

    def reshape(self, labels: Labels, shape: Shape) -> None:
        if shape != self.shape:
            self.steps.append((reshape_to, shape))
        self.labels, self.shape = labels, shape

    def arrange(self, labels: Labels) -> None:
        self.permute(tuple(self.labels.index(label) for label in labels))

    def permute(self, order: tuple[int, ...]) -> None:
        if order != tuple(range(len(order))):
            self.steps.append((permute, order))
        self.labels, self.shape = tuple(self.labels[k] for k in order), tuple(self.shape[k] for k in order)

    def drop_broadcast(self, sizes: dict[str, int]) -> None:
        """Without the axes of length 1 that only broadcast."""
        kept = [k for k, label in enumerate(self.labels) if self.shape[k] == sizes[label]]
        self.reshape(tuple(self.labels[k] for k in kept), tuple(self.shape[k] for k in kept))

    def take_diagonals(self) -> None:
        """Each label once."""
        for label in [label for label, count in Counter(self.labels).items() for _ in range(count - 1)]:
            first = self.labels.index(label)
            second = self.labels.index(label, first + 1)
            self.permute((*(k for k in range(len(self.labels)) if k not in (first, second)), first, second))
            self.steps.append((diagonal_of, 0))
            self.labels, self.shape = self.labels[:-1], self.shape[:-1]

    def sum_all_but(self, needed: set[str]) -> None:
        away = tuple(k for k, label in enumerate(self.labels) if label not in needed)
        if away:
            self.steps.append((reduce_sum, away, False))
            self.shape = tuple(n for k, n in enumerate(self.shape) if k not in away)
            self.labels = tuple(label for label in self.labels if label in needed)


@lru_cache(maxsize=512)
def _plan(subscripts: str, shapes: tuple[Shape, ...]) -> Plan:
    inputs, output = _parsed(subscripts, shapes)
    sizes = _sizes(subscripts, inputs, shapes)
    for label in output:
        if label not in sizes:
            raise ArgumentError(_about(subscripts, shapes, f"the output label {label!r} is in no operand"))
    terms: list[_Term] = [_Term(labels, shape) for labels, shape in zip(inputs, shapes, strict=True)]
    for term in terms:
        term.drop_broadcast(sizes)
        term.take_diagonals()
    for k, term in enumerate(terms):
        term.sum_all_but(_needed(terms, output, (k,)))
    alone = [term.steps for term in terms]
    meetings: list[Meeting] = []
    while len(terms) > 1:
        _, _, i, j = min((*_price(terms, i, j, output, sizes), i, j) for i, j in combinations(range(len(terms)), 2))
        meeting, both = _meeting(terms, i, j, _needed(terms, output, (i, j)), sizes)
        meetings.append(meeting)
        terms = [*(term for k, term in enumerate(terms) if k not in (i, j)), both]
    last = _Term(terms[0].labels, terms[0].shape)
    last.arrange(output)
    return Plan(alone, meetings, last.steps)


def _needed(terms: list[_Term], output: Labels, of: tuple[int, ...]) -> set[str]:
    """The labels that the output or operands other than `of` need."""
    return set(output).union(*(term.labels for k, term in enumerate(terms) if k not in of))


def _price(terms: list[_Term], i: int, j: int, output: Labels, sizes: dict[str, int]) -> tuple[int, int]:
    """What decides which operands meet first: by how much memory grows, then the number of multiplications."""
    labels = {*terms[i].labels, *terms[j].labels}
    result = prod(sizes[label] for label in labels & _needed(terms, output, (i, j)))
    return result - prod(terms[i].shape) - prod(terms[j].shape), prod(sizes[label] for label in labels)


def _meeting(terms: list[_Term], i: int, j: int, needed: set[str], sizes: dict[str, int]) -> tuple[Meeting, _Term]:
    """Two operands as one: what both have and nobody else needs is summed by a product of matrices."""
    x, y = (_Term(terms[k].labels, terms[k].shape) for k in (i, j))
    batch = tuple(label for label in x.labels if label in y.labels and label in needed)
    inner = tuple(label for label in x.labels if label in y.labels and label not in needed)
    left = tuple(label for label in x.labels if label not in y.labels)
    right = tuple(label for label in y.labels if label not in x.labels)
    front, of_left, of_inner, of_right = (tuple(sizes[k] for k in labels) for labels in (batch, left, inner, right))
    x.arrange((*batch, *left, *inner))
    y.arrange((*batch, *inner, *right))
    both = _Term((*batch, *left, *right), (*front, *of_left, *of_right))
    if inner:
        x.reshape((), (*front, prod(of_left), prod(of_inner)))
        y.reshape((), (*front, prod(of_inner), prod(of_right)))
        finish: Steps = [(reshape_to, both.shape)] if len(left) != 1 or len(right) != 1 else []
        return Meeting(i, j, x.steps, y.steps, matmul_arrays, finish), both
    if right:
        x.reshape((), (*front, *of_left, *(1 for _ in right)))
    if left and y.shape:
        y.reshape((), (*front, *(1 for _ in left), *of_right))
    return Meeting(i, j, x.steps, y.steps, multiply, []), both


def _about(subscripts: str, shapes: tuple[Shape, ...], fault: str) -> str:
    named: dict[str, Any] = {f"operand {k}": shape for k, shape in enumerate(shapes)}
    return explain("einsum", fault, subscripts=subscripts, **named)


def _parsed(subscripts: str, shapes: tuple[Shape, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of every operand and of the output; `...` becomes labels `-1`, `-2`, counted from its end."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    letters = text.replace("->", "").replace("...", "").replace(",", "")
    if (
        "->" in right
        or not all(letter.isalpha() for letter in letters)
        or any(term.count("...") > 1 for term in [*terms, right])
    ):
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
