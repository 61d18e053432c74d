"""The command that serves the dashboard, and those that use its API."""
