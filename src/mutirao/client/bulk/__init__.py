"""Actions on many jobs, in batches, with an audit."""
