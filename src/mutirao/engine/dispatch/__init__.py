"""Which claimed job runs when, in which slot, and what the log says of it."""
