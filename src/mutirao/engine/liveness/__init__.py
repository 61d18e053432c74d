"""Signs of life: the heartbeat, and the watch over loops and slots."""
