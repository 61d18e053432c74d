"""What tells others what happens here: metrics, dashboards and alerts, traces, errors.

Each part needs its own package, an extra, and nothing here is imported by who does not use it.
"""
