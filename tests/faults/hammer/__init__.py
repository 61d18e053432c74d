"""The hammer: whatever locks rows, at the same time and on the same few keys; and what comes of it.

`python -m tests.faults.hammer --help`. Transactions that wait for each other in a circle show
themselves where everybody wants the same rows in another order: that is made likely here, and each
circle that the server breaks is told with the two statements that met.
"""
