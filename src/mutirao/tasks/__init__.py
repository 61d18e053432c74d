"""Functions registered as tasks: their signatures, their options, and the jobs that calls make."""
