"""The command that serves the dashboard, and those that ask its API."""
