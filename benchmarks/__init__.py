"""Benchmarks: one work a file, each a coroutine that returns what it measured.

`python -m benchmarks` prints them, see `cli`; nothing else here does. `spent` measures around any
code, by what a database tells of its effort (`gauges`). `peers` measures the same work for other
job queues.
"""
