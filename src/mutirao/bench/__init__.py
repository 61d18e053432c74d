"""Benchmarks: one work a file, each a coroutine that returns what it measured.

`mutirao bench` prints them; nothing here does. `spent` measures around any code.
"""
