"""The matrix: each server and each Python that is told to work, with what was run on it, and when.

`make matrix` runs it, and writes `results.json`, of which the tables of the documents are made.
"""
