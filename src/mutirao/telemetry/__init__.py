"""Telemetry: metrics, dashboards and alerts, traces, errors, logs.

Each part needs its own package, an extra, and is imported only where it is used.
"""
