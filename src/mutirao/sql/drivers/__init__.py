"""Access to the driver of any connection that a program holds.

Enqueueing, and the frequent statements of workers, are written once, as steps that request I/O
(`steps`). Each driver has a small adapter that performs it, synchronously or asynchronously;
`kinds` finds the adapter for a connection. No driver is imported before one of its connections has
been seen.
"""
