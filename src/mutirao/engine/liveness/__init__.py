"""Signs of life: the heartbeat, and the watchdogs of loops and slots."""
