"""Laws: functions of a record that raise AssertionError where it breaks them. One decorator adds a law to the suite; the mutants run the same ones."""

from collections.abc import Callable

from chainrule.core.primitive import Primitive
from tests.laws.examples import differentiable, examples, is_elementwise

Law = Callable[[Primitive], None]
LAWS: dict[str, tuple[Law, Callable[[Primitive], bool]]] = {}


def every(record: Primitive) -> bool:
    return True


def has_rules(record: Primitive) -> bool:
    return any(differentiable(record, example) for example in examples(record))


def elementwise_with_rules(record: Primitive) -> bool:
    return is_elementwise(record) and has_rules(record)


def law(applies: Callable[[Primitive], bool] = every) -> Callable[[Law], Law]:
    def add(check: Law) -> Law:
        LAWS[check.__name__] = check, applies
        return check

    return add
