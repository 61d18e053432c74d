"""A fleet of workers under a virtual clock, in one process: `python -m tests.simulation --help`.

The engine knows only ports, and takes all that it knows of time from its event loop and one
function. So whole workers, with all their loops, run here against a model of the store that fails
in every way a database can, as fast as they can be computed, and a seed decides everything that
happens: a run that finds something can be looked at again, event by event.
"""
