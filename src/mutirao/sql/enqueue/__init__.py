"""Enqueues jobs and graphs through whatever connection a program holds."""
