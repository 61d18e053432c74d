"""The command that serves the dashboard."""
