"""Ordeal: workers at work, troubles one after another, and promises checked all the time.

`python -m tests.faults.ordeal --help`
"""
