"""chainrule measured against its peers, in one interleaved run: ``python -m benchmarks``.

harness.py    the rules of measuring: blocks in turn, results compared before and after
worker.py     the process that does the work, commanded one JSON line at a time
processes.py  the environments a worker can start in: one thread, malloc setting, pages kept
workloads/    what is measured: one module per workload, one function per contender
report.py     the table and the JSON file
"""
