"""Callers' connections: speaking to the driver of whatever connection a program holds.

Enqueueing, and what workers do all day, is written once, as steps that ask for I/O (`steps`); each
driver has a small caller that does it, synchronously or asynchronously; `kinds` knows which caller
fits a connection. No driver is imported before one of its connections has been seen.
"""
