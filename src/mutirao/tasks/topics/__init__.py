"""Topics and their subscribers, as tasks."""
