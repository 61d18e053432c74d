"""The worker's loops. They know the ports and the tasks, and nothing of databases or brokers."""
