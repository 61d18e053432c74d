"""Values and plans of graphs of jobs."""
