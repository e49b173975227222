"""What is measured.  Each module has CASES and CONTENDERS (see contender.py); the order here
is the order of the table.
"""

WORKLOADS = {
    "chain": "benchmarks.workloads.chain",
    "hinge": "benchmarks.workloads.hinge",
    "scalar": "benchmarks.workloads.scalar",
    "hessian": "benchmarks.workloads.hessian",
    "hvp": "benchmarks.workloads.hvp",
}
