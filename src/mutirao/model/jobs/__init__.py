"""Values and rules of jobs, their attempts and their workers."""
