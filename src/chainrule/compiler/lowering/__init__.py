"""From equations to array expressions: each record's own `standard`, run on expressions, or a better spelling."""

from chainrule.compiler.lowering.programs import Lowered, lower

__all__ = ["Lowered", "lower"]
