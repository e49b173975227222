"""Linear algebra under the array API's names; the products also stand at the top of `chainrule`."""

from chainrule.ops.arranging import diagonal
from chainrule.ops.linalg import cross, matmul, outer, tensordot, trace, vecdot
from chainrule.ops.norms import vector_norm
from chainrule.ops.views import matrix_transpose

__all__ = ["cross", "diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "trace", "vecdot", "vector_norm"]
