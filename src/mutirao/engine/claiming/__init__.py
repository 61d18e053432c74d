"""From the store to the slots: which jobs a worker claims, and when it looks."""
