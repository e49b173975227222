"""What is measured.  Each module has CASES and CONTENDERS (see contender.py); the order here
is the order of the table.
"""

WORKLOADS = {
    "chain": "benchmarks.workloads.chain",
    "hinge": "benchmarks.workloads.hinge",
    "spiral": "benchmarks.workloads.spiral",
    "digits": "benchmarks.workloads.digits",
    "transformer": "benchmarks.workloads.transformer",
    "conv": "benchmarks.workloads.conv",
    "two threads": "benchmarks.workloads.two_threads",
    "kernels": "benchmarks.workloads.kernels",
    "scalar": "benchmarks.workloads.scalar",
    "hessian": "benchmarks.workloads.hessian",
    "hvp": "benchmarks.workloads.hvp",
}
