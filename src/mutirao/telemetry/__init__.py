"""What tells others what happens here: metrics, dashboards and alerts for them.

Each listens at a port, and its packages are an extra of its own: nothing here is imported by who
does not use it.
"""
