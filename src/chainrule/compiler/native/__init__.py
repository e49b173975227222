"""The native executor: expressions become kernels, kernels become machine code, through llvmlite (extra `jit`)."""
