"""One kernel called by itself, in shares, with scratch memory full of NaN."""

import ctypes
from itertools import pairwise

import numpy as np

from chainrule.compiler.native.machine import Code, compile_text, machine

HOST = machine()
MACHINES = [
    HOST._replace(vector_bytes=n, registers=32 if n == 64 else 16, l1_bytes=32 << 10, l2_bytes=1 << 20)
    for n in (64, 32, 16)
    if n <= HOST.vector_bytes
]


def text(kernel):
    operands = [f"ptr noalias %a{k}" for k in range(kernel.operands)]
    head = ", ".join([*operands, "ptr noalias %scratch", "ptr noalias %status", "i64 %begin", "i64 %end"])
    declarations = "\n".join(sorted(kernel.declarations))
    return f"{declarations}\ndefine void @kernel({head}) {{\nentry:\n{kernel.body}\n  ret void\n}}\n"


def run(kernel, arrays, shares=1):
    """Run on `arrays`, in so many shares, the last one first."""
    code = Code(compile_text(text(kernel)))
    pointers = [ctypes.c_void_p] * (kernel.operands + 2)
    function = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)(code.address("kernel"))
    scratch = np.full(kernel.scratch + 64, 0xFF, np.uint8)
    aligned = -(-scratch.ctypes.data // 64) * 64
    status = np.zeros(1, np.int32)
    ends = [kernel.extent * k // shares for k in range(shares + 1)]
    for begin, end in reversed(list(pairwise(ends))):
        function(*[a.ctypes.data for a in arrays], aligned, status.ctypes.data, begin, end)
