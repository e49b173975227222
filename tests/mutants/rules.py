"""Mutants of derivative rules: every rule of every record broken in several ways, each met by the laws until one notices."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

import chainrule as cr
import tests.laws.first_order
import tests.laws.higher_order
import tests.laws.values  # noqa: F401 - each adds its laws
from chainrule.core.calls import is_tensor, raw, wrap
from chainrule.core.primitive import PRIMITIVES, Primitive, primitive
from tests.laws.examples import records
from tests.laws.registry import LAWS

Rule = Callable[..., Any]

# What notices most mutants comes first; all the others follow.
FIRST = ("vjp", "no_rule_means_no_slope", "second_order", "recorded_equals_raw", "zero_stays_zero")
ORDER = [*FIRST, *(name for name in LAWS if name not in FIRST)]


def record_of(name: str) -> Primitive:
    """The record of this name, which is there only after its module was imported."""
    return PRIMITIVES.get(name) or records()[name]


class RuleMutant(NamedTuple):
    record: str
    index: int
    change: str

    @property
    def name(self) -> str:
        record = record_of(self.record)
        return f"{self.record}.{record.inputs[self.index]}: {self.change}"


# ------------------------------------------------------------------------------------------------------ ways to break one
def _result(change: Callable[[Any], Any]) -> Callable[[Primitive, int], Rule | None]:
    def mutate(record: Primitive, index: int) -> Rule:
        rule = record.rules[index]

        @wraps(rule)
        def broken(ct: Any, *of: Any, **named: Any) -> Any:
            return change(rule(ct, *of, **named))

        return broken

    return mutate


def _backwards(g: Any) -> Any:
    return cr.flip(g) if g.shape else g * 1.5


def _detached(value: Any) -> Any:
    if isinstance(value, list):  # the cotangents of several outputs
        return [_detached(entry) for entry in value]
    return wrap(raw(value), None) if is_tensor(value) else value


def _detach_cotangent(record: Primitive, index: int) -> Rule:
    rule = record.rules[index]

    @wraps(rule)
    def broken(ct: Any, *of: Any, **named: Any) -> Any:
        return rule(_detached(ct), *of, **named)

    return broken


def _residuals(change: Callable[[Any], Any], most: int) -> Callable[[Primitive, int], Rule | None]:
    """The first arrays that a rule reads, changed; None for a rule that reads none."""

    def mutate(record: Primitive, index: int) -> Rule | None:
        rule, reads = record.rules[index], record.reads[index]
        arrays = [name for name in reads if name == "out" or name in record.inputs][:most]
        if not arrays:
            return None

        @wraps(rule)
        def broken(ct: Any, *of: Any, **named: Any) -> Any:
            values = dict(zip(reads, of, strict=False)) | named
            return rule(ct, **{name: change(v) if name in arrays else v for name, v in values.items()})

        return broken

    return mutate


def _other_value(value: Any) -> Any:
    kind = str(value.dtype)
    if "bool" in kind:
        return cr.logical_not(value)
    return value * -1.1 + 0.01 if "float" in kind else cr.flip(value, axis=-1)


def _rule_of_another(record: Primitive, index: int) -> Rule | None:
    """The rule of the next input, if it says anything else."""
    others = [rule for rule in record.rules if rule is not None and _code(rule) != _code(record.rules[index])]
    return others[0] if others else None


def _code(rule: Rule) -> Any:
    code = rule.__code__
    return code.co_code, code.co_consts, code.co_names, code.co_varnames


CHANGES: dict[str, Callable[[Primitive, int], Rule | None]] = {
    "negated": _result(lambda g: -g),
    "scaled by 1.01": _result(lambda g: g * 1.01),
    "zero": _result(lambda g: g * 0.0),
    "left out": lambda record, index: None,
    "entries backwards": _result(_backwards),
    "the rule of another input": _rule_of_another,
    "other residuals": _residuals(_other_value, 1),
    "residuals detached": _residuals(_detached, 9),
    "cotangent detached": _detach_cotangent,
}


def mutants() -> Iterator[RuleMutant]:
    for name, record in records().items():
        for index, rule in enumerate(record.rules):
            for change, mutate in CHANGES.items():
                if rule is not None and (change == "left out" or mutate(record, index) is not None):
                    yield RuleMutant(name, index, change)


def broken_record(mutant: RuleMutant) -> Primitive:
    """A copy of the record with the one rule broken; other rules that call the operation still call the right one."""
    record = record_of(mutant.record)
    rules = list(record.rules)
    rules[mutant.index] = CHANGES[mutant.change](record, mutant.index)
    kept = (
        "forward",
        "standard",
        "shape_rule",
        "dtype_rule",
        "expected",
        "domain",
        "samples",
        "is_view",
        "hides",
        "multiple",
        "flat",
    )
    try:
        call = primitive(
            record.name,
            record.family,
            rules,
            inputs="*" * record.variadic + " ".join(record.inputs),
            parameters=" ".join(record.parameters),
            **{name: getattr(record, name) for name in kept},
        )
    finally:
        PRIMITIVES[record.name] = record
    return call.primitive  # type: ignore[attr-defined]


def killer(mutant: RuleMutant) -> str:
    """The law that notices; empty where none does."""
    broken = broken_record(mutant)
    with np.errstate(all="ignore"):
        for name in ORDER:
            check, applies = LAWS[name]
            try:
                if applies(broken):
                    check(broken)
            except Exception:  # noqa: BLE001 - whatever it raises, it has noticed
                return name
    return ""
