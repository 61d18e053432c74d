"""The command that asks a running process for its health."""
