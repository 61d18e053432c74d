"""A fleet of workers under a virtual clock, in one process.

`python -m tests.faults.simulation --help`

The engine knows only ports, and takes all that it knows of time from its event loop and one
function. So whole workers, with all their loops, run here as fast as they can be computed: on the
real store, over SQLite in memory, behind calls that fail in every way a database can. A seed
decides everything that happens, so a run that finds something can be looked at again, event by
event.
"""
