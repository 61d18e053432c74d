"""How ended attempts are written: in batches, or one by one after a batch was refused."""
