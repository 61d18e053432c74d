"""Metrics in Prometheus's text: what a worker did, and what the store holds.

Two sources. A worker counts what it does, and is scraped at a port of its own. What the store holds
is the same the caller: it is read once for a fleet, and never by each worker.
"""
