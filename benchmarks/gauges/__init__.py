"""What a database tells about its own effort: one file for each that can tell something."""

from importlib import import_module

from benchmarks.gauges.base import Gauges, Instruments

__all__ = ["Gauges", "Instruments", "instruments"]


def instruments(dialect: str) -> Instruments:
    """Return what is asked of a database, by the name of its dialect."""
    found: Instruments = import_module(f"benchmarks.gauges.{dialect}").INSTRUMENTS
    return found
