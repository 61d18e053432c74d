"""What is done to many jobs, in batches, and kept as an audit."""
