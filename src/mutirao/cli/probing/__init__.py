"""The command that asks a running process how it does."""
