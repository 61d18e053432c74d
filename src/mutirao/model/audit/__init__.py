"""Actions of people on many jobs, and what is kept of them."""
