"""Values for pages besides single jobs: figures, and why a job does not run."""
