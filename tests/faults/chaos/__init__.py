"""Chaos: workers killed, frozen and replaced, the server crashed, and every job counted after.

`python -m tests.faults.chaos --help`
"""
