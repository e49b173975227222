"""Linear algebra under the array API's names; the products also stand at the top of `chainrule`."""

from typing import Any

from chainrule.ops import arranging
from chainrule.ops import linalg as products
from chainrule.ops.linalg import cross, matmul, outer, tensordot, vecdot
from chainrule.ops.norms import vector_norm
from chainrule.ops.views import matrix_transpose

__all__ = ["cross", "diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "trace", "vecdot", "vector_norm"]


def diagonal(x: Any, *, offset: int = 0) -> Any:
    """The entries of matrices whose row and column differ by `offset`.

    **Shapes** `x f[..., m, n] -> f[..., k]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.linalg.diagonal(cr.ones((5, 2, 3))).shape
    (5, 2)
    """
    return arranging.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, *, offset: int = 0) -> Any:
    """The sum of a diagonal of matrices.

    **Shapes** `x f[..., m, n] -> f[...]`.  **Raises** ShapeError.

    >>> import chainrule as cr
    >>> cr.linalg.trace(cr.ones((5, 2, 3))).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    return products.trace(x, offset=offset, axis1=-2, axis2=-1)
