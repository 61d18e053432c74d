"""Enqueues jobs and graphs through any connection that a program holds."""
