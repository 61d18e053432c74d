"""Frozen values for jobs and what belongs to them, with their rules as pure functions."""
